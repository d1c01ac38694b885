//! Which inboxes a letter goes to, and which copy of it is for each.

use super::Error;
use super::envelope::{self, Envelope, Role};
use super::inboxes::{Inbox, Known};
use super::letter::{Near, Place};
use crate::kernel::{Aid, DeviceId, Seat, Session};
use serde_json::value::RawValue;

pub(super) fn no_device(aid: &Aid, device: &str) -> Error {
    Error::NoDevice { aid: aid.clone(), device: device.chars().take(128).collect() }
}

/// The places a letter gets, one after the other.
pub(super) struct Addressed<'a> {
    pub session: &'a Session,
    pub seats: &'a [Seat],
    pub places: Vec<Place>,
    pub devices: Vec<DeviceId>,
}

impl Addressed<'_> {
    fn add(&mut self, inbox: &Inbox, copy: usize, own: bool) {
        // To oneself, a device is meant twice, as the recipient's and as the sender's; it gets one row.
        if self.places.iter().any(|place| place.inbox == inbox.id) {
            return;
        }
        let beside = |seat: &Seat| seat.device == inbox.device && seat.address == self.session.address;
        let near = Near {
            device: !inbox.device.is_empty() && inbox.device == self.session.device,
            address: self.seats.iter().any(beside),
        };
        self.places.push(Place { inbox: inbox.id, seq: 0, copy: copy as u32, near, own });
        self.devices.push(inbox.device.clone());
    }

    pub fn all(&mut self, recipient: &Known, target: Option<&DeviceId>) {
        for inbox in recipient.iter().filter(|inbox| target.is_none_or(|target| inbox.device == *target)) {
            self.add(inbox, 0, false);
        }
    }

    /// A wrapped key for a device is for that device; one for an agent is for each of its devices that has keys.
    pub fn sealed(
        &mut self,
        envelope: &Envelope<'_>,
        recipient: &Known,
        own: &Known,
        target: Option<&DeviceId>,
        to: &Aid,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        for role in [Role::Peer, Role::SelfSync] {
            let inboxes = if role == Role::Peer { recipient } else { own };
            for (index, row) in envelope.rows.iter().enumerate().filter(|(_, row)| row.role == role) {
                if !row.device.is_empty() && !inboxes.iter().any(|inbox| inbox.device.as_str() == row.device)
                {
                    let aid = if role == Role::Peer { to } else { &self.session.aid };
                    return Err(no_device(aid, &row.device));
                }
                for inbox in inboxes.iter() {
                    let meant = match row.device.is_empty() {
                        true => inbox.spk.is_some(),
                        false => inbox.device.as_str() == row.device,
                    };
                    let elsewhere = role == Role::SelfSync && inbox.device == self.session.device;
                    let aside = role == Role::Peer && target.is_some_and(|target| inbox.device != *target);
                    if meant && !elsewhere && !aside {
                        self.add(inbox, copies.len(), role == Role::SelfSync);
                    }
                }
                copies.push(envelope.wrap(index));
            }
        }
        if self.places.iter().all(|place| place.own) {
            return Err(no_device(to, ""));
        }
        Ok(copies)
    }

    /// Each device gets its own envelope; a copy for a device nobody has is left out.
    pub fn split(
        &mut self,
        split: envelope::Split,
        recipient: &Known,
        own: &Known,
        target: Option<&DeviceId>,
        to: &Aid,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        let single = split.recipients.len() == 1;
        for (device, envelope) in split.recipients {
            let placeholder = matches!(device.as_str(), "" | "aun_device_id");
            let inbox = match recipient.iter().find(|inbox| inbox.device.as_str() == device) {
                None if placeholder && single => recipient.first(),
                found => found,
            };
            let inbox = inbox.filter(|inbox| target.is_none_or(|target| inbox.device == *target));
            if let Some(inbox) = inbox {
                self.add(inbox, copies.len(), false);
                copies.push(envelope);
            }
        }
        if copies.is_empty() {
            return Err(no_device(to, ""));
        }
        for (device, envelope) in split.own {
            if let Some(inbox) = own.iter().find(|inbox| inbox.device.as_str() == device) {
                self.add(inbox, copies.len(), true);
                copies.push(envelope);
            }
        }
        Ok(copies)
    }
}
