//! Searches for Java and the jars. Only looks at files, and starts nothing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Path of the library in a Java home.
const LIBJVM: &str = "lib/server/libjvm.so";

/// Folders in which Debian, Fedora and most images install Java, each in a subfolder.
const INSTALLED: &[&str] = &["/usr/lib/jvm", "/opt/java", "/usr/java"];

/// The jar with the Java side of this crate.
const BRIDGE: &str = "tidegate-saxon.jar";

/// Class data archive made by `scripts/saxon.sh`, which saves Java from loading classes one by one.
const ARCHIVE: &str = "saxon.jsa";

/// Advice if there is no Java.
pub(crate) const INSTALL_JAVA: &str = "install a Java runtime of version 11 or later (Debian: apt-get install openjdk-17-jre-headless), or say where one is in `saxon.java_home`";

/// Advice if there are no jars.
pub(crate) const INSTALL_JARS: &str =
    "make them with `make saxon`, or say in `saxon.home` where they are";

/// Returns the total memory of the host in bytes, or `None` if it cannot be read.
pub(crate) fn memory() -> Option<u64> {
    let said = fs::read_to_string("/proc/meminfo").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Finds the JVM library: in the configured folder, else in `JAVA_HOME`, else by `java` on the path, else in the newest installation.
pub(crate) fn libjvm(written: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(home) = written {
        let library = home.join(LIBJVM);
        return if library.is_file() {
            Ok(library)
        } else {
            Err(format!("there is no Java in {}: no {LIBJVM} there", home.display()))
        };
    }
    let from_env = env::var_os("JAVA_HOME").map(PathBuf::from);
    let named = from_env.into_iter().chain(on_path());
    let mut found = named.map(|home| home.join(LIBJVM)).filter(|library| library.is_file());
    found.next().or_else(newest).ok_or_else(|| {
        format!("no Java is found by JAVA_HOME, on the path, or in {}", INSTALLED.join(", "))
    })
}

/// Returns the Java homes of the `java` commands on the path. Each command links to `HOME/bin/java`, possibly through other links.
fn on_path() -> Vec<PathBuf> {
    // Harmless: without a path there are no commands on it.
    let path = env::var_os("PATH").unwrap_or_default();
    let commands = env::split_paths(&path).map(|folder| folder.join("java"));
    // Harmless: a folder without the command is skipped.
    let real = commands.filter_map(|command| fs::canonicalize(command).ok());
    // Harmless: a command that is not in a Java home is skipped.
    real.filter_map(|command| Some(command.parent()?.parent()?.to_owned())).collect()
}

fn newest() -> Option<PathBuf> {
    // Harmless: a folder that does not exist contains no Java.
    let folders = INSTALLED.iter().filter_map(|folder| fs::read_dir(folder).ok());
    // Harmless: an entry that cannot be read is skipped.
    let homes = folders.flatten().flatten().map(|entry| entry.path());
    let usable = homes.filter(|home| home.join(LIBJVM).is_file());
    let best = usable.max_by_key(|home| (version(home), home.clone()))?;
    Some(best.join(LIBJVM))
}

/// Reads the major version from the file `release` of a Java home: `JAVA_VERSION="17.0.15"`.
fn version(home: &Path) -> u32 {
    // Harmless: a home without the file counts as the oldest.
    let release = fs::read_to_string(home.join("release")).unwrap_or_default();
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
    let digits = line.unwrap_or("").split(|c: char| !c.is_ascii_digit()).next();
    // Harmless: a home without a version counts as the oldest.
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// The class path, and the class data archive for it, if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Jars {
    pub(crate) class_path: String,
    pub(crate) archive: Option<PathBuf>,
}

/// Finds the jars: in the configured folder, else in `TIDEGATE_SAXON`, else beside the program or where packages install them.
pub(crate) fn jars(written: Option<&Path>) -> Result<Jars, String> {
    let folder = match written {
        Some(folder) => folder.to_owned(),
        None => usual().into_iter().find(|folder| folder.join(BRIDGE).is_file()).ok_or_else(
            || format!("no {BRIDGE} is found beside the program, nor does TIDEGATE_SAXON name its folder"),
        )?,
    };
    let entries = fs::read_dir(&folder)
        .map_err(|error| format!("cannot read the folder {}: {error}", folder.display()))?;
    // Harmless: a missing jar is reported below.
    let paths = entries.flatten().map(|entry| entry.path());
    let mut jars: Vec<PathBuf> =
        paths.filter(|path| path.extension() == Some(OsStr::new("jar"))).collect();
    // The archive was made with this order.
    jars.sort_unstable();
    for (name, what) in [("tidegate-saxon", BRIDGE), ("saxon-he", "jar of Saxon-HE")] {
        let starts = |path: &PathBuf| {
            // Harmless: a path without a file name is not a jar.
            let file = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            file.starts_with(name)
        };
        if !jars.iter().any(starts) {
            return Err(format!("there is no {what} in {}", folder.display()));
        }
    }
    let archive = Some(folder.join(ARCHIVE)).filter(|archive| archive.is_file());
    let names: Vec<_> = jars.iter().map(|jar| jar.to_string_lossy()).collect();
    Ok(Jars { class_path: names.join(":"), archive })
}

fn usual() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        env::var_os("TIDEGATE_SAXON").map(PathBuf::from).into_iter().collect();
    // Harmless: if the path of the program is unknown, the other folders are searched.
    let program = env::current_exe().ok();
    if let Some(beside) = program.as_deref().and_then(Path::parent) {
        // Relative paths in an installation, and in the layout of cargo and `make saxon`.
        folders.extend(["saxon", "../share/tidegate/saxon", "../saxon"].map(|at| beside.join(at)));
    }
    folders.push(PathBuf::from("/usr/share/tidegate/saxon"));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_what_a_folder_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        assert!(libjvm(Some(at)).unwrap_err().contains("there is no Java in"));
        assert!(jars(Some(&at.join("none"))).unwrap_err().contains("cannot read the folder"));
        assert!(jars(Some(at)).unwrap_err().contains("no tidegate-saxon.jar"));
        fs::write(at.join(BRIDGE), "").unwrap();
        assert!(jars(Some(at)).unwrap_err().contains("no jar of Saxon-HE"));
        fs::write(at.join("Saxon-HE-12.9.jar"), "").unwrap();
        fs::write(at.join("notes.txt"), "").unwrap();
        let found = jars(Some(at)).unwrap();
        assert!(found.class_path.ends_with("tidegate-saxon.jar"), "{found:?}");
        assert_eq!((found.class_path.split(':').count(), found.archive), (2, None));
    }

    #[test]
    fn the_version_is_read_from_the_release_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(version(folder.path()), 0);
        let text = "IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\n";
        fs::write(folder.path().join("release"), text).unwrap();
        assert_eq!(version(folder.path()), 17);
    }
}
