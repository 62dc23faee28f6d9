//! Room that is kept for the next start.
//!
//! The tables of a process that was killed are mended before anything else, which takes room. Behind a kill on a full disk there would
//! be none, and nothing that makes room could begin.

use std::io;
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::disk::Disk;

/// The file that has the room.
const FILE: &str = "reserve";

/// So much mends tables of any usual size: what redb writes anew is about a thousandth of them.
const BYTES: usize = 4 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// The pause before it is tried again, on a disk that had no room for it.
const PAUSE: Duration = Duration::from_secs(60);

/// True while the room is kept.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    is_kept: bool,
    tried: Option<Instant>,
}

/// Gives the room back that the last process kept.
pub(crate) fn give_back(disk: &dyn Disk) -> io::Result<()> {
    if disk.list()?.iter().any(|name| name == FILE) { disk.remove(FILE) } else { Ok(()) }
}

impl Reserve {
    /// Keeps the room, unless that is done or was tried in vain a moment ago.
    pub(crate) fn keep(&mut self, disk: &dyn Disk) {
        if self.is_kept || self.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return;
        }
        self.tried = Some(clock::now());
        self.is_kept = fill(disk).is_ok();
        if !self.is_kept {
            // What there is of it may be all the room.
            drop(give_back(disk));
        }
    }
}

/// Writes the file. It has no holes, which would keep no room.
fn fill(disk: &dyn Disk) -> io::Result<()> {
    let file = disk.open(FILE)?;
    let piece = vec![0x5a; PIECE_BYTES];
    for offset in (0..BYTES).step_by(PIECE_BYTES) {
        file.write_at(offset as u64, &piece)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Folder;

    #[test]
    fn the_room_is_kept_once_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Folder::open(folder.path()).unwrap();
        let size = || std::fs::metadata(folder.path().join(FILE)).map(|file| file.len()).ok();
        give_back(&disk).unwrap();
        let mut reserve = Reserve::default();
        reserve.keep(&disk);
        assert_eq!(size(), Some(BYTES as u64));
        give_back(&disk).unwrap();
        assert_eq!(size(), None);
        reserve.keep(&disk);
        assert_eq!(size(), None, "it has been kept");
    }
}
