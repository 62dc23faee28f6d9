//! The interface between the embedded store and its files.
//!
//! All stored data passes through [`Disk`]. So tests can use a disk that loses data that was not synced, tears writes, flips
//! bits and fills up. [`Folder`] is the real one.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A flat set of named files.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file, and creates it if it does not exist. Its existence is durable after [`Disk::sync`].
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file, and replaces the file with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Readers that have it open can continue.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the set of files durable.
    fn sync(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: fmt::Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Fills the buffer, or fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes. After an error, some of them may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Makes the writes so far durable. After an error, it is unknown which of them are.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of real files, used by one process at a time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The lock is released when the file is closed.
    _lock: File,
}

/// The file whose lock excludes other processes.
const LOCK: &str = "lock";

/// The socket on which the process that has the store serves it to processes that had it before.
pub(crate) const SOCKET: &str = "socket";

/// The number of times that taking the lock is retried. A process that has just ended may hold it for another moment, and so may a child
/// that it forked and that has not executed its program yet.
const LOCK_TRIES: u32 = 50;
/// The pause before each attempt.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

impl Folder {
    /// Locks a folder for this process, and creates it if it does not exist. Other users may not read it, since it contains messages and
    /// addresses.
    ///
    /// If another process holds the lock for longer than a second, the error's kind is [`io::ErrorKind::WouldBlock`].
    pub fn open(path: &Path) -> io::Result<Folder> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let lock = private().open(path.join(LOCK))?;
        let mut left = LOCK_TRIES;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Folder { path: path.to_owned(), _lock: lock }),
                Err(TryLockError::WouldBlock) if left > 0 => {
                    left -= 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

fn private() -> OpenOptions {
    let mut options = File::options();
    // Harmless: the file is not truncated.
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options
}

impl Disk for Folder {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(private().open(self.path.join(name))?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            // Harmless: every file of the store has a UTF-8 name, and neither the lock nor the socket is one of its files.
            names.extend(name.into_string().ok().filter(|name| name != LOCK && name != SOCKET));
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
