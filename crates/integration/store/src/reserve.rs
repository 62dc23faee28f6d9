//! Disk space that is reserved for the next start.
//!
//! After a crash, the tables are repaired before anything else. The repair needs disk space. Without a reserve, it would fail on a
//! full disk, and the work that frees space could not start.

use std::io;
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::disk::Disk;

/// The file that reserves the space.
const FILE: &str = "reserve";

/// Enough to repair tables of any usual size: a repair by redb writes about a thousandth of their size.
const BYTES: usize = 4 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// The delay before a failed reservation is retried.
const PAUSE: Duration = Duration::from_secs(60);

/// The reserved space.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    is_kept: bool,
    /// The time of the last attempt.
    tried: Option<Instant>,
}

/// Frees the space that the last process reserved.
pub(crate) fn release(disk: &dyn Disk) -> io::Result<()> {
    if disk.list()?.iter().any(|name| name == FILE) { disk.remove(FILE) } else { Ok(()) }
}

impl Reserve {
    /// Reserves the space, unless it is already reserved or the last attempt failed less than [`PAUSE`] ago.
    pub(crate) fn reserve(&mut self, disk: &dyn Disk) {
        if self.is_kept || self.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return;
        }
        self.tried = Some(clock::now());
        self.is_kept = fill(disk).is_ok();
        if !self.is_kept {
            // The partial file may occupy all of the free space.
            drop(release(disk));
        }
    }
}

/// Writes every byte of the file, since a sparse file would reserve no space.
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
        release(&disk).unwrap();
        let mut reserve = Reserve::default();
        reserve.reserve(&disk);
        assert_eq!(size(), Some(BYTES as u64));
        release(&disk).unwrap();
        assert_eq!(size(), None);
        reserve.reserve(&disk);
        assert_eq!(size(), None, "the space was reserved before");
    }
}
