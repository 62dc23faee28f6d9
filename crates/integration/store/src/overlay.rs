//! A disk that is never written to: writes stay in memory, and are discarded with it.
//!
//! So the code that opens a store, which truncates and repairs files, can also be used to inspect one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};

/// The size of a block. Written data is kept in blocks.
const BLOCK: usize = 4096;

/// A disk with an overlay of writes in memory.
#[derive(Debug)]
pub(crate) struct Overlay<D> {
    below: D,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<String, Arc<OverlayFile>>,
    removed: HashSet<String>,
}

/// A file with an overlay of writes in memory.
#[derive(Debug)]
struct OverlayFile {
    /// The underlying file, or `None` for a file that exists only in the overlay.
    below: Option<Arc<dyn DiskFile>>,
    state: Mutex<OverlayContent>,
}

#[derive(Debug)]
struct OverlayContent {
    size: u64,
    /// The number of bytes at the start of the underlying file that are still visible.
    shows: u64,
    blocks: HashMap<u64, Box<[u8]>>,
}

impl<D: Disk> Overlay<D> {
    pub(crate) fn new(below: D) -> Overlay<D> {
        Overlay { below, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Disk for Overlay<D> {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        if let Some(file) = state.files.get(name) {
            return Ok(file.clone());
        }
        let is_below =
            !state.removed.contains(name) && self.below.list()?.iter().any(|n| n == name);
        let below = if is_below { Some(self.below.open(name)?) } else { None };
        let size = below.as_ref().map_or(Ok(0), |file| file.size())?;
        let written = OverlayContent { size, shows: size, blocks: HashMap::new() };
        let file = Arc::new(OverlayFile { below, state: Mutex::new(written) });
        state.files.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        let mut names = self.below.list()?;
        names.retain(|name| !state.removed.contains(name) && !state.files.contains_key(name));
        names.extend(state.files.keys().cloned());
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.open(from)?;
        drop(file);
        let mut state = self.state();
        if let Some(file) = state.files.remove(from) {
            state.files.insert(to.to_owned(), file);
            state.removed.insert(from.to_owned());
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.files.remove(name);
        state.removed.insert(name.to_owned());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl OverlayFile {
    fn state(&self) -> MutexGuard<'_, OverlayContent> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the content of a block.
    fn block(&self, written: &OverlayContent, index: u64) -> io::Result<Box<[u8]>> {
        if let Some(block) = written.blocks.get(&index) {
            return Ok(block.clone());
        }
        let mut block = vec![0; BLOCK].into_boxed_slice();
        let from = index * BLOCK as u64;
        let shown = written.shows.saturating_sub(from).min(BLOCK as u64);
        let shown = usize::try_from(shown).unwrap_or(BLOCK);
        if let (Some(below), Some(part)) = (&self.below, block.get_mut(..shown))
            && shown > 0
        {
            below.read_at(from, part)?;
        }
        Ok(block)
    }
}

/// Splits a range of a file into blocks. Returns for each block its index, the offset in the block, and the range of the caller's buffer.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let inside = usize::try_from(at % BLOCK as u64).unwrap_or(0);
        let piece = (BLOCK - inside).min(len - done);
        let range = done..done + piece;
        done += piece;
        (piece > 0).then_some((at / BLOCK as u64, inside, range))
    })
}

impl DiskFile for OverlayFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.state().size)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let written = self.state();
        if offset.saturating_add(into.len() as u64) > written.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (index, inside, range) in pieces(offset, into.len()) {
            let block = self.block(&written, index)?;
            if let (Some(to), Some(from)) =
                (into.get_mut(range.clone()), block.get(inside..inside + range.len()))
            {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut written = self.state();
        written.size = written.size.max(offset.saturating_add(bytes.len() as u64));
        for (index, inside, range) in pieces(offset, bytes.len()) {
            let mut block = self.block(&written, index)?;
            if let (Some(to), Some(from)) =
                (block.get_mut(inside..inside + range.len()), bytes.get(range))
            {
                to.copy_from_slice(from);
            }
            written.blocks.insert(index, block);
        }
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let mut written = self.state();
        let last = size / BLOCK as u64;
        if size < written.size {
            let mut block = self.block(&written, last)?;
            let inside = usize::try_from(size % BLOCK as u64).unwrap_or(0);
            block.iter_mut().skip(inside).for_each(|byte| *byte = 0);
            written.blocks.retain(|index, _| *index < last);
            written.blocks.insert(last, block);
            written.shows = written.shows.min(last * BLOCK as u64);
        }
        written.size = size;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Folder;

    #[test]
    fn written_data_can_be_read_and_never_reaches_the_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), vec![1; 10_000]).unwrap();
        std::fs::write(folder.path().join("b"), b"old").unwrap();
        let overlay = Overlay::new(Folder::open(folder.path()).unwrap());
        let mut model = vec![1; 10_000];
        let file = overlay.open("a").unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let offset = rng.usize(..model.len() + 3000);
            if rng.u32(..5) == 0 {
                model.resize(offset, 0);
                file.set_size(offset as u64).unwrap();
            } else {
                let bytes = vec![rng.u8(..); rng.usize(..9000)];
                if !bytes.is_empty() {
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                file.write_at(offset as u64, &bytes).unwrap();
                model.resize(model.len().max(offset), 0);
            }
            let mut seen = vec![0; model.len()];
            assert_eq!(file.size().unwrap(), model.len() as u64);
            file.read_at(0, &mut seen).unwrap();
            assert!(seen == model, "at {offset}");
            assert!(file.read_at(1, &mut seen).is_err() || seen.is_empty());
        }
        overlay.rename("a", "c").unwrap();
        overlay.remove("b").unwrap();
        assert_eq!(overlay.list().unwrap(), ["c"]);
        assert_eq!(overlay.open("b").unwrap().size().unwrap(), 0);
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), vec![1; 10_000]);
        assert_eq!(std::fs::read(folder.path().join("b")).unwrap(), b"old");
    }
}
