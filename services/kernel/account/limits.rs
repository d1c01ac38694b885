//! How much may be kept, and for which account something is too much.

use super::full::FREE_BYTES;
use super::{AccountFull, Kept, Payer};
use crate::AccountSettings;

/// What one service keeps for those who pay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShareLimits {
    /// For one agent, and the settings that say so.
    pub share: Kept,
    pub bytes_setting: &'static str,
    pub rows_setting: &'static str,
    pub settings: AccountSettings,
}

/// What is kept now.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldNow {
    pub own: Kept,
    /// In other services, as they told last.
    pub elsewhere: i64,
    /// For all agents of its domain, if it is of another one.
    pub domain: Option<Kept>,
    /// For all new agents of its network, if it is new.
    pub network: Option<Kept>,
    /// Whether there is little free space: then who has much gets no more.
    pub space_is_low: bool,
}

/// Who keeps no more than this part of a share has little.
const LITTLE: i64 = 64;

impl ShareLimits {
    /// Whether a payer may keep so much more. `given` is what the operator lets an agent keep instead of a share; for a tenant it is
    /// the share that its service gives it.
    pub fn check(
        &self,
        payer: &Payer,
        given: Option<Kept>,
        held: HeldNow,
        more: Kept,
    ) -> Result<(), AccountFull> {
        let ShareLimits { share, bytes_setting, rows_setting, settings } = *self;
        let is_tenant = payer.tenant_name().is_some();
        let most = given.unwrap_or(if is_tenant { Kept::default() } else { share });
        // An agent that was given more has a larger total by as much.
        let total = i64::try_from(settings.total_bytes).unwrap_or(i64::MAX);
        let total = total.saturating_add((most.bytes - share.bytes).max(0));
        let in_all = held.own.bytes.saturating_add(held.elsewhere);
        let (of_domain, of_network) =
            (share.times(settings.domain_shares), share.times(settings.network_shares));
        let (domain, network) = (held.domain.unwrap_or_default(), held.network.unwrap_or_default());
        let (has_domain, has_network) = (held.domain.is_some(), held.network.is_some());
        let (own_bytes, own_rows) =
            if is_tenant { (TENANT_SCOPE, TENANT_SCOPE) } else { (bytes_setting, rows_setting) };
        let (little, low) = (most.bytes / LITTLE, held.space_is_low && held.own.bytes > most.bytes / LITTLE);
        let checks = [
            (low, FREE_BYTES, held.own.bytes, more.bytes, little, Whose::Own("bytes")),
            (true, own_bytes, held.own.bytes, more.bytes, most.bytes, Whose::Own("bytes")),
            (true, own_rows, held.own.rows, more.rows, most.rows, Whose::Own("rows")),
            (!is_tenant, "accounts.total_bytes", in_all, more.bytes, total, Whose::AgentInAll),
            (has_domain, DOMAIN_SHARES, domain.bytes, more.bytes, of_domain.bytes, Whose::Domain("bytes")),
            (has_domain, DOMAIN_SHARES, domain.rows, more.rows, of_domain.rows, Whose::Domain("rows")),
            (
                has_network,
                NETWORK_SHARES,
                network.bytes,
                more.bytes,
                of_network.bytes,
                Whose::Network("bytes"),
            ),
            (has_network, NETWORK_SHARES, network.rows, more.rows, of_network.rows, Whose::Network("rows")),
        ];
        let too_much = checks.into_iter().find(|(applies, _, held, more, limit, _)| {
            *applies && *more > 0 && held.saturating_add(*more) > *limit
        });
        let Some((_, scope, held, more, limit, whose)) = too_much else { return Ok(()) };
        let sentence = format!(
            "at most {limit} {} may be stored: {held} already are, and this call adds {more}",
            whose.shown(payer)
        );
        Err(AccountFull { sentence, scope, limit, held, retry_after_ms: None })
    }
}

const DOMAIN_SHARES: &str = "accounts.domain_shares";
pub(super) const NETWORK_SHARES: &str = "accounts.network_shares";
/// The limit of a tenant is no setting that all tenants have in common.
const TENANT_SCOPE: &str = "tenant";

/// Whose bytes or rows a limit is about.
enum Whose {
    Own(&'static str),
    AgentInAll,
    Domain(&'static str),
    Network(&'static str),
}

impl Whose {
    fn shown(&self, payer: &Payer) -> String {
        let own = match payer.tenant_name() {
            Some(name) => format!("tenant {name}"),
            None => payer.key().to_owned(),
        };
        match self {
            Whose::Own(unit) => format!("{unit} of {own}"),
            Whose::AgentInAll => format!("bytes of {own} in all services"),
            Whose::Domain(unit) => format!("{unit} of all agents of {}", payer.domain().unwrap_or_default()),
            Whose::Network(unit) => format!("{unit} of all new agents of one network"),
        }
    }
}
