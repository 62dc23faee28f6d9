//! Disk space that is reserved for the next start.
//!
//! After a kill, the tables are repaired before anything else, which needs space. On a full disk there would be none, and the work
//! that frees space could not start.

use std::io;
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::disk::Disk;

/// The file that reserves the space.
const FILE: &str = "reserve";

/// Enough to repair tables of any usual size: redb writes about a thousandth of them again.
const BYTES: usize = 4 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// The pause before a failed reservation is retried.
const PAUSE: Duration = Duration::from_secs(60);

/// True while the space is reserved.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    is_kept: bool,
    tried: Option<Instant>,
}

/// Frees the space that the last process reserved.
pub(crate) fn give_back(disk: &dyn Disk) -> io::Result<()> {
    if disk.list()?.iter().any(|name| name == FILE) { disk.remove(FILE) } else { Ok(()) }
}

impl Reserve {
    /// Reserves the space, unless it is reserved or the last attempt failed a moment ago.
    pub(crate) fn keep(&mut self, disk: &dyn Disk) {
        if self.is_kept || self.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return;
        }
        self.tried = Some(clock::now());
        self.is_kept = fill(disk).is_ok();
        if !self.is_kept {
            // The partial file may use all the free space.
            drop(give_back(disk));
        }
    }
}

/// Writes the file without holes, since holes would reserve no space.
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
        assert_eq!(size(), None, "the space is reserved");
    }
}
