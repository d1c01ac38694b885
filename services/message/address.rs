//! Which inboxes a message goes to, and which copy of it is for each.

use super::Error;
use super::envelope::{self, Envelope, Role};
use super::inboxes::{Inbox, Known};
use super::stored_message::{Near, Place};
use crate::kernel::{Aid, DeviceId, PresentSession, Session};
use serde_json::value::RawValue;

pub(super) fn no_device(aid: &Aid, device: &str) -> Error {
    Error::NoDevice { aid: aid.clone(), device: device.chars().take(128).collect() }
}

/// The places a message gets, one after the other.
pub(super) struct Addressed<'a> {
    pub session: &'a Session,
    /// Only of an agent of this domain do we know where it is.
    is_ours: bool,
    seats: &'a [PresentSession],
    pub places: Vec<Place>,
    pub devices: Vec<DeviceId>,
}

/// The two ends of a message; the inboxes of an end that lives elsewhere are none of ours.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub to: &'a Aid,
    pub recipient: Option<&'a Known>,
    pub own: Option<&'a Known>,
    /// The one device it is for, if it names one.
    pub target: Option<&'a DeviceId>,
}

impl<'a> Addressed<'a> {
    pub fn new(session: &'a Session, is_ours: bool, seats: &'a [PresentSession]) -> Addressed<'a> {
        Addressed { session, is_ours, seats, places: Vec::new(), devices: Vec::new() }
    }

    fn add(&mut self, inbox: &Inbox, copy: usize, own: bool) {
        // To oneself, a device is meant twice, as the recipient's and as the sender's; it gets one row.
        if self.places.iter().any(|place| place.inbox == inbox.id) {
            return;
        }
        let beside =
            |seat: &PresentSession| seat.device == inbox.device && seat.address == self.session.address;
        let near = Near {
            device: self.is_ours && !inbox.device.is_empty() && inbox.device == self.session.device,
            address: self.is_ours && self.seats.iter().any(beside),
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
    pub fn sealed(&mut self, envelope: &Envelope<'_>, sides: Sides<'_>) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        if let Some(recipient) = sides.recipient {
            self.unseal(envelope, Role::Peer, recipient, sides, &mut copies)?;
            if self.places.is_empty() {
                return Err(no_device(sides.to, ""));
            }
        }
        if let Some(own) = sides.own {
            self.unseal(envelope, Role::SelfSync, own, sides, &mut copies)?;
        }
        Ok(copies)
    }

    fn unseal(
        &mut self,
        envelope: &Envelope<'_>,
        role: Role,
        inboxes: &Known,
        sides: Sides<'_>,
        copies: &mut Vec<Box<RawValue>>,
    ) -> Result<(), Error> {
        for (index, row) in envelope.rows.iter().enumerate().filter(|(_, row)| row.role == role) {
            if !row.device.is_empty() && !inboxes.iter().any(|inbox| inbox.device.as_str() == row.device) {
                let aid = if role == Role::Peer { sides.to } else { &self.session.aid };
                return Err(no_device(aid, &row.device));
            }
            for inbox in inboxes.iter() {
                let meant = match row.device.is_empty() {
                    true => inbox.spk.is_some(),
                    false => inbox.device.as_str() == row.device,
                };
                let elsewhere = role == Role::SelfSync && inbox.device == self.session.device;
                let aside = role == Role::Peer && sides.target.is_some_and(|target| inbox.device != *target);
                if meant && !elsewhere && !aside {
                    self.add(inbox, copies.len(), role == Role::SelfSync);
                }
            }
            copies.push(envelope.wrap(index));
        }
        Ok(())
    }

    /// Each device gets its own envelope; a copy for a device nobody has is left out.
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
        recipient: &Known,
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
        if copies.is_empty() { Err(no_device(sides.to, "")) } else { Ok(()) }
    }
}
