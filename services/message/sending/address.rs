//! Which inboxes a message goes to, and which copy of it is for each.

use crate::Error;
use crate::envelope;
use crate::envelope::{Envelope, Role};
use crate::store::inboxes::{Inbox, InboxList};
use crate::store::stored_message::{InboxEntry, Near};
use kernel::{Aid, CallingAgent, DeviceId, PresentSession};
use serde_json::value::RawValue;

pub(crate) fn no_device(aid: &Aid, device: &str) -> Error {
    Error::NoDevice { aid: aid.clone(), device: device.chars().take(128).collect() }
}

/// The inbox entries of a message, one after the other.
pub(crate) struct AddressedEntries<'a> {
    pub session: &'a CallingAgent,
    /// Only of an agent of this domain are the addresses of its connections known.
    is_ours: bool,
    sessions: &'a [PresentSession],
    pub entries: Vec<InboxEntry>,
    pub devices: Vec<DeviceId>,
}

/// The sender and the recipient of a message; whoever is of another domain has no inboxes here.
#[derive(Clone, Copy)]
pub(crate) struct Sides<'a> {
    pub to: &'a Aid,
    pub recipient: Option<&'a InboxList>,
    pub own: Option<&'a InboxList>,
    /// The one device it is for, if it names one.
    pub target: Option<&'a DeviceId>,
}

impl<'a> AddressedEntries<'a> {
    pub fn new(
        session: &'a CallingAgent,
        is_ours: bool,
        sessions: &'a [PresentSession],
    ) -> AddressedEntries<'a> {
        AddressedEntries { session, is_ours, sessions, entries: Vec::new(), devices: Vec::new() }
    }

    fn add(&mut self, inbox: &Inbox, copy: usize, own: bool) {
        // In a message to oneself a device is both the recipient's and the sender's; it gets one row.
        if self.entries.iter().any(|entry| entry.inbox == inbox.id) {
            return;
        }
        let beside = |present: &PresentSession| {
            present.device == inbox.device && present.address == self.session.address
        };
        let near = Near {
            device: self.is_ours && !inbox.device.is_empty() && inbox.device == self.session.device,
            address: self.is_ours && self.sessions.iter().any(beside),
        };
        self.entries.push(InboxEntry { inbox: inbox.id, seq: 0, copy: copy as u32, near, own });
        self.devices.push(inbox.device.clone());
    }

    pub fn all(&mut self, recipient: &InboxList, target: Option<&DeviceId>) {
        for inbox in recipient.iter().filter(|inbox| target.is_none_or(|target| inbox.device == *target)) {
            self.add(inbox, 0, false);
        }
    }

    /// A wrapped key for a device is for that device; one for an agent is for each of its devices that has keys.
    pub fn wrapped(
        &mut self,
        envelope: &Envelope<'_>,
        sides: Sides<'_>,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        if let Some(recipient) = sides.recipient {
            self.add_wrapped(envelope, Role::Peer, recipient, sides, &mut copies)?;
            if self.entries.is_empty() {
                return Err(Error::NoDevices(sides.to.clone()));
            }
        }
        if let Some(own) = sides.own {
            self.add_wrapped(envelope, Role::SelfSync, own, sides, &mut copies)?;
        }
        Ok(copies)
    }

    fn add_wrapped(
        &mut self,
        envelope: &Envelope<'_>,
        role: Role,
        inboxes: &InboxList,
        sides: Sides<'_>,
        copies: &mut Vec<Box<RawValue>>,
    ) -> Result<(), Error> {
        for (index, row) in envelope.rows.iter().enumerate().filter(|(_, row)| row.role == role) {
            if !row.device.is_empty() && !inboxes.iter().any(|inbox| inbox.device.as_str() == row.device) {
                let aid = if role == Role::Peer { sides.to } else { &self.session.aid };
                return Err(no_device(aid, &row.device));
            }
            for inbox in inboxes.iter() {
                let addressed = match row.device.is_empty() {
                    true => inbox.spk.is_some(),
                    false => inbox.device.as_str() == row.device,
                };
                let sending = role == Role::SelfSync && inbox.device == self.session.device;
                let excluded =
                    role == Role::Peer && sides.target.is_some_and(|target| inbox.device != *target);
                if addressed && !sending && !excluded {
                    self.add(inbox, copies.len(), role == Role::SelfSync);
                }
            }
            copies.push(envelope.wrap(index));
        }
        Ok(())
    }

    /// Each device gets its own envelope; a copy for a device that does not exist is left out.
    pub fn split(&mut self, split: envelope::Split, sides: Sides<'_>) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        if let Some(recipient) = sides.recipient {
            self.split_peer(split.recipients, recipient, sides, &mut copies)?;
        }
        for (device, envelope) in split.own {
            let own = sides.own.into_iter().flat_map(|own| own.iter());
            if let Some(inbox) = own.into_iter().find(|inbox| inbox.device.as_str() == device) {
                self.add(inbox, copies.len(), true);
                copies.push(envelope);
            }
        }
        Ok(copies)
    }

    fn split_peer(
        &mut self,
        envelopes: Vec<(String, Box<RawValue>)>,
        recipient: &InboxList,
        sides: Sides<'_>,
        copies: &mut Vec<Box<RawValue>>,
    ) -> Result<(), Error> {
        let single = envelopes.len() == 1;
        for (device, envelope) in envelopes {
            let placeholder = matches!(device.as_str(), "" | "aun_device_id");
            let inbox = match recipient.iter().find(|inbox| inbox.device.as_str() == device) {
                None if placeholder && single => recipient.first(),
                found => found,
            };
            let inbox = inbox.filter(|inbox| sides.target.is_none_or(|target| inbox.device == *target));
            if let Some(inbox) = inbox {
                self.add(inbox, copies.len(), false);
                copies.push(envelope);
            }
        }
        if copies.is_empty() { Err(Error::NoDevices(sides.to.clone())) } else { Ok(()) }
    }
}
