//! Sockets that have not proved yet which process they come from: how many there may be, and which goes when there are too many.

use kernel::Network;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// All together, and of one address. The processes of a server on one machine share an address and may come all at once.
const HANDSHAKES: usize = 64;
const OF_ONE_ADDRESS: usize = 32;

#[derive(Clone, Default)]
pub(super) struct MeshHandshakes(Arc<Mutex<HandshakeList>>);

#[derive(Default)]
struct HandshakeList {
    /// In the order in which they came. There are few: a list is searched faster than anything else.
    open: Vec<MeshHandshake>,
    /// How many have come. Never a number twice: who was evicted gives its slot back a moment later.
    next: u64,
}

struct MeshHandshake {
    address: Network,
    /// Whether nothing was received from it.
    silent: bool,
    evicted: CancellationToken,
    /// What tells it from the others.
    number: u64,
}

/// The slot of a socket until it is dropped.
pub(super) struct MeshHandshakeSlot {
    handshakes: MeshHandshakes,
    number: u64,
    evicted: CancellationToken,
}

impl MeshHandshakes {
    /// Whether the next one may cost another one its slot. Those that have spoken should have said so before.
    pub fn are_many(&self) -> bool {
        self.0.lock().open.len() >= OF_ONE_ADDRESS
    }

    /// A slot, which is always given. Where there is none left, whoever has taken the most of them loses one: the oldest that is
    /// silent, or the oldest if none is. A process of this server speaks at once, so a socket that only waits never keeps it out.
    pub fn take(&self, address: IpAddr) -> MeshHandshakeSlot {
        let (address, evicted) = (Network::of_one(address), CancellationToken::new());
        let mut list = self.0.lock();
        if let Some(position) = one_too_many(&list.open, address) {
            list.open.remove(position).evicted.cancel();
        }
        let number = list.next;
        list.next += 1;
        list.open.push(MeshHandshake { address, silent: true, evicted: evicted.clone(), number });
        drop(list);
        MeshHandshakeSlot { handshakes: self.clone(), number, evicted }
    }
}

/// Which one has to go before another one comes from this address.
fn one_too_many(all: &[MeshHandshake], address: Network) -> Option<usize> {
    let of = |address: Network| all.iter().filter(|other| other.address == address).count();
    let payer = if of(address) >= OF_ONE_ADDRESS {
        address
    } else if all.len() >= HANDSHAKES {
        // Among those that have equally many, the one that came first.
        let most = all.iter().map(|other| of(other.address)).max()?;
        all.iter().find(|other| of(other.address) == most)?.address
    } else {
        return None;
    };
    // Where everybody has one, nobody has taken too many: then the silent ones of all addresses are equal.
    let equal = of(payer) == 1;
    let may_go = |other: &MeshHandshake| equal || other.address == payer;
    let silent = all.iter().position(|other| other.silent && may_go(other));
    silent.or_else(|| all.iter().position(may_go))
}

impl MeshHandshakeSlot {
    /// Something was received.
    pub fn spoke(&self) {
        let mut list = self.handshakes.0.lock();
        if let Some(own) = list.open.iter_mut().find(|handshake| handshake.number == self.number) {
            own.silent = false;
        }
    }

    /// Returns when another socket got the slot.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for MeshHandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.0.lock().open.retain(|handshake| handshake.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn gone(slots: &[MeshHandshakeSlot]) -> Vec<usize> {
        (0..slots.len()).filter(|at| slots[*at].evicted.is_cancelled()).collect()
    }

    #[test]
    fn the_oldest_silent_socket_of_an_address_makes_space_for_its_next() {
        let handshakes = MeshHandshakes::default();
        let other = handshakes.take(address(2));
        let mut slots: Vec<_> = (0..OF_ONE_ADDRESS).map(|_| handshakes.take(address(1))).collect();
        slots[0].spoke();
        assert!(gone(&slots).is_empty());
        slots.push(handshakes.take(address(1)));
        assert_eq!(gone(&slots), [1]);
        slots.iter().for_each(MeshHandshakeSlot::spoke);
        slots.push(handshakes.take(address(1)));
        assert_eq!(gone(&slots), [0, 1], "the oldest, if all of them have spoken");
        assert!(!other.evicted.is_cancelled());
        drop(slots);
        assert_eq!(handshakes.0.lock().open.len(), 1);
    }

    #[test]
    fn whoever_has_taken_the_most_pays_when_all_slots_are_taken() {
        let handshakes = MeshHandshakes::default();
        let first = handshakes.take(address(9));
        let many: Vec<_> = (0..OF_ONE_ADDRESS).map(|_| handshakes.take(address(1))).collect();
        let rest = HANDSHAKES - OF_ONE_ADDRESS - 1;
        let some: Vec<_> = (0..rest).map(|_| handshakes.take(address(2))).collect();
        let _last = handshakes.take(address(3));
        assert_eq!((gone(&many), gone(&some)), (vec![0], vec![]));
        assert!(!first.evicted.is_cancelled(), "it has one only");
    }

    #[test]
    fn of_sockets_from_as_many_addresses_the_oldest_silent_one_goes() {
        let handshakes = MeshHandshakes::default();
        let slots: Vec<_> =
            (0..u8::try_from(HANDSHAKES).unwrap()).map(|last| handshakes.take(address(last))).collect();
        slots[0].spoke();
        let _another = handshakes.take(address(200));
        assert_eq!(gone(&slots), [1]);
    }
}
