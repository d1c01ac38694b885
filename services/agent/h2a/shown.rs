//! A relation as callers see it.

use crate::consent::scopes_of;
use crate::store::relations::RelationRow;
use kernel::iso;
use proto_schemas::requests::h2a::H2aRelation;

pub(super) fn shown(row: RelationRow) -> H2aRelation {
    H2aRelation {
        id: row.id,
        agent_id: row.agent_id,
        agent_aid: row.agent_aid,
        user_id: row.user_aid,
        status: row.status,
        granted_scopes: scopes_of(&row.granted_scopes),
        granted_manifest_version: row.granted_manifest_version,
        reauth_required: row.reauth_required != 0,
        reauth_manifest_version: row.reauth_manifest_version,
        reauth_scopes: scopes_of(&row.reauth_scopes),
        created_at: iso(row.created_at),
        updated_at: iso(row.updated_at),
    }
}
