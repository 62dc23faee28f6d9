//! `saxon`: what runs stylesheets of XSLT 2.0 and 3.0.

use std::time::Duration;

use crate::decode::keys;
use crate::values::{Between, FilePath, Size, Spanned, Timeout};

keys! {
    /// The JVM that runs stylesheets of XSLT 2.0 and 3.0. It starts when the first of them is configured.
    pub struct Saxon {
        /// The Java installation, such as `/usr/lib/jvm/java-17-openjdk-amd64`; found by JAVA_HOME, on the path or in
        /// `/usr/lib/jvm` if absent.
        java_home: Option<Spanned<FilePath>>,
        /// The folder with `tidegate-saxon.jar` and the jars of Saxon; found beside the program, by TIDEGATE_SAXON or in
        /// `/usr/share/tidegate/saxon` if absent.
        home: Option<Spanned<FilePath>>,
        /// The largest size of its heap.
        // Trees of ten messages of 1 MiB at once, with room to spare; an idle machine holds less than a tenth of it.
        heap_bytes_max: Spanned<Size> = Spanned::unwritten(Size(256 * 1024 * 1024)),
        /// How many messages are transformed at once; one for each core if absent.
        threads: Option<Spanned<Between<1, 256>>>,
        /// How many messages may wait for it; 503 above.
        // Some 10 ms of work; who would wait longer is better told at once.
        pending: Between<1, 65_536> = const { Between::new(1024) },
        /// How long a message may take, the wait included; after that it is stopped.
        // Messages take microseconds, and the largest some hundred milliseconds.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
    }
}
