//! `saxon`: the engine for stylesheets of XSLT 2.0 and 3.0.

use std::time::Duration;

use crate::decode::keys;
use crate::values::{Between, FilePath, Size, Spanned, Timeout};

keys! {
    /// The JVM that runs stylesheets of XSLT 2.0 and 3.0. It starts when the first of them is configured.
    pub struct Saxon {
        /// The Java installation, such as `/usr/lib/jvm/java-17-openjdk-amd64`. If absent, it is found by JAVA_HOME, on the path or in
        /// `/usr/lib/jvm`.
        java_home: Option<Spanned<FilePath>>,
        /// The folder with `tidegate-saxon.jar` and the jars of Saxon. If absent, it is found next to the program, by TIDEGATE_SAXON or in
        /// `/usr/share/tidegate/saxon`.
        home: Option<Spanned<FilePath>>,
        /// The largest size of its heap.
        // Enough for the trees of ten messages of 1 MiB at once. An idle JVM uses less than a tenth of it.
        heap_bytes_max: Spanned<Size> = Spanned::unwritten(Size(256 * 1024 * 1024)),
        /// How many messages are transformed at once; one per core if absent.
        threads: Option<Spanned<Between<1, 256>>>,
        /// How many messages may wait for it; 503 above.
        // About 10 ms of work. Beyond that, an immediate refusal is better than a longer wait.
        pending: Between<1, 65_536> = const { Between::new(1024) },
        /// How long a message may take, including the wait. After that, the transformation is stopped.
        // Messages take microseconds, and the largest some hundred milliseconds.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
    }
}
