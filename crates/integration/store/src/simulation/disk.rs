//! A simulated disk with the worst behaviour of real ones. Data that was not synced is lost in parts and out of order, errors
//! occur at any call, the space is limited, and syncs are slow.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};

/// The unit of torn writes. A write reaches the disk by sectors.
const SECTOR: usize = 512;

/// The disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub(super) struct BadDisk {
    state: Arc<Mutex<State>>,
    slow: SyncHook,
}

/// A function that is called during each sync, in place of other threads. Clones share it.
#[derive(Clone, Default)]
struct SyncHook {
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

type Meanwhile = Box<dyn FnMut() + Send>;

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    files: Vec<Content>,
    /// The names as programs see them.
    names: BTreeMap<String, usize>,
    /// The names as they are on the disk.
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<Naming>,
    /// On average, one of this number of calls fails. With 0, none fails.
    error_rate: u32,
    /// The maximum size of all files together.
    room: Option<u64>,
}

#[derive(Debug, Default)]
struct Content {
    /// The content as programs see it.
    seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Debug)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Size(usize),
}

#[derive(Debug)]
enum Naming {
    Put(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug)]
struct OpenFile {
    disk: BadDisk,
    file: usize,
}

impl BadDisk {
    pub(super) fn new(seed: u64) -> BadDisk {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            error_rate: 0,
            room: None,
        };
        BadDisk { state: Arc::new(Mutex::new(state)), slow: SyncHook::default() }
    }

    /// Sets the work done during each sync, before any of its data is durable.
    pub(super) fn set_meanwhile(&self, meanwhile: Option<Meanwhile>) {
        *self.slow.meanwhile.lock().unwrap() = meanwhile;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, one of `rate` calls fails on average. With 0, none fails.
    pub(super) fn set_error_rate(&self, rate: u32) {
        self.state().error_rate = rate;
    }

    /// Limits the growth of all files together to this many bytes.
    pub(super) fn set_room(&self, room: Option<u64>) {
        let mut state = self.state();
        let used = state.used();
        state.room = room.map(|room| used + room);
    }

    /// Simulates a crash of the machine. The disk then has the state that the next start finds.
    pub(super) fn crash(&self) {
        let mut state = self.state();
        let State { rng, files, .. } = &mut *state;
        for file in files.iter_mut() {
            file.lose(rng);
        }
        // Names are in a journal, so the earliest changes are kept.
        let pending = std::mem::take(&mut state.pending_names);
        let kept = state.rng.usize(..=pending.len());
        for naming in pending.into_iter().take(kept) {
            apply(&mut state.durable_names, naming);
        }
        state.names = state.durable_names.clone();
        state.error_rate = 0;
        state.room = None;
    }

    /// Flips one bit of a file, and returns the offset of the byte.
    pub(super) fn flip(&self, name: &str) -> Option<usize> {
        let mut state = self.state();
        let file = *state.names.get(name)?;
        let len = state.files.get(file)?.seen.len();
        let (at, bit) = (state.rng.usize(..len.max(1)), state.rng.u32(..8));
        let content = state.files.get_mut(file)?;
        for bytes in [&mut content.seen, &mut content.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        Some(at)
    }
}

impl BadDisk {
    /// The durable content of a file.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        let file = state.names.get(name).and_then(|file| state.files.get(*file));
        file.map(|file| file.durable.clone()).unwrap_or_default()
    }

    /// Replaces the content of a file.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let Some(file) = state.names.get(name).copied() else { return };
        if let Some(content) = state.files.get_mut(file) {
            *content =
                Content { seen: bytes.to_vec(), durable: bytes.to_vec(), pending: Vec::new() };
        }
    }
}

impl SyncHook {
    fn pass(&self) {
        if let Some(meanwhile) = &mut *self.meanwhile.lock().unwrap() {
            meanwhile();
        }
    }
}

impl fmt::Debug for SyncHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncHook").finish_non_exhaustive()
    }
}

fn apply(names: &mut BTreeMap<String, usize>, naming: Naming) {
    match naming {
        Naming::Put(name, file) => {
            names.insert(name, file);
        }
        Naming::Rename(from, to) => {
            if let Some(file) = names.remove(&from) {
                names.insert(to, file);
            }
        }
        Naming::Remove(name) => {
            names.remove(&name);
        }
    }
}

impl State {
    fn fails(&mut self) -> io::Result<()> {
        if self.error_rate > 0 && self.rng.u32(..self.error_rate) == 0 {
            Err(io::Error::other("the disk fails"))
        } else {
            Ok(())
        }
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .filter_map(|file| self.files.get(*file))
            .map(|f| f.seen.len() as u64)
            .sum()
    }

    /// Returns how many of `more` bytes there is space for.
    fn fitting(&self, more: usize) -> usize {
        let left = self.room.map_or(u64::MAX, |room| room.saturating_sub(self.used()));
        more.min(usize::try_from(left).unwrap_or(usize::MAX))
    }
}

impl Content {
    fn write(bytes: &mut Vec<u8>, offset: usize, from: &[u8]) {
        if bytes.len() < offset + from.len() {
            bytes.resize(offset + from.len(), 0);
        }
        bytes[offset..offset + from.len()].copy_from_slice(from);
    }

    /// Writes all pending data to the disk.
    fn keep(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Size(size) => self.durable.resize(size, 0),
                Pending::Write { offset, bytes } => {
                    Content::write(&mut self.durable, offset, &bytes);
                }
            }
        }
    }

    /// Writes some of the pending sectors, in any order, and loses the rest.
    fn lose(&mut self, rng: &mut fastrand::Rng) {
        let all = rng.u32(..4);
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Size(size) if rng.bool() => self.durable.resize(size, 0),
                Pending::Size(_) => {}
                Pending::Write { offset, bytes } => {
                    let (mut at, mut rest) = (offset, bytes.as_slice());
                    while !rest.is_empty() {
                        let sector;
                        (sector, rest) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                        if all == 0 || (all < 3 && rng.bool()) {
                            Content::write(&mut self.durable, at, sector);
                        }
                        at += sector.len();
                    }
                }
            }
        }
        self.seen = self.durable.clone();
    }
}

impl Disk for BadDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.fails()?;
        let file = match state.names.get(name) {
            Some(file) => *file,
            None => {
                state.files.push(Content::default());
                let file = state.files.len() - 1;
                state.names.insert(name.to_owned(), file);
                state.pending_names.push(Naming::Put(name.to_owned(), file));
                file
            }
        };
        Ok(Arc::new(OpenFile { disk: self.clone(), file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.fails()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.fails()?;
        let naming = || Naming::Rename(from.to_owned(), to.to_owned());
        apply(&mut state.names, naming());
        state.pending_names.push(naming());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.fails()?;
        if state.names.remove(name).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.pending_names.push(Naming::Remove(name.to_owned()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.slow.pass();
        let mut state = self.state();
        state.fails()?;
        state.pending_names.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }
}

impl DiskFile for OpenFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].seen.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let state = self.disk.state();
        let from = usize::try_from(offset).unwrap();
        let bytes = state.files[self.file].seen.get(from..from + into.len());
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let failed = state.fails();
        let offset = usize::try_from(offset).unwrap();
        let more = (offset + bytes.len()).saturating_sub(state.files[self.file].seen.len());
        let missing = more - state.fitting(more);
        let mut written = bytes.len().saturating_sub(missing);
        if failed.is_err() {
            written = state.rng.usize(..=written);
        }
        let content = &mut state.files[self.file];
        if written > 0 {
            Content::write(&mut content.seen, offset, &bytes[..written]);
            content.pending.push(Pending::Write { offset, bytes: bytes[..written].to_vec() });
        }
        failed?;
        match missing {
            0 => Ok(()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.fails()?;
        let size = usize::try_from(size).unwrap();
        let more = size.saturating_sub(state.files[self.file].seen.len());
        if state.fitting(more) < more {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let content = &mut state.files[self.file];
        content.seen.resize(size, 0);
        content.pending.push(Pending::Size(size));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.slow.pass();
        let mut state = self.disk.state();
        let failed = state.fails();
        let State { rng, files, .. } = &mut *state;
        let content = &mut files[self.file];
        if let Err(error) = failed {
            // Programs still see the data, but it is never written again, since the operating system marks it as clean.
            let seen = content.seen.clone();
            content.lose(rng);
            content.seen = seen;
            return Err(error);
        }
        content.keep();
        Ok(())
    }
}
