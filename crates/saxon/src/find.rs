//! Where Java and the jars are. Looks at files; starts nothing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Below the home of a Java installation.
const LIBJVM: &str = "lib/server/libjvm.so";

/// Where Debian, Fedora and most images have their Java installations, each in a folder of its own.
const INSTALLED: &[&str] = &["/usr/lib/jvm", "/opt/java", "/usr/java"];

/// Our half on the other side.
const BRIDGE: &str = "tidegate-saxon.jar";

/// What `scripts/saxon.sh` makes, so that Java need not read the classes one by one.
const ARCHIVE: &str = "saxon.jsa";

/// What to do where there is no Java.
pub(crate) const INSTALL_JAVA: &str = "install a Java runtime of version 11 or later (Debian: apt-get install openjdk-17-jre-headless), or say where one is in `saxon.java_home`";

/// What to do where there are no jars.
pub(crate) const INSTALL_JARS: &str =
    "make them with `make saxon`, or say in `saxon.home` where they are";

/// What this computer has for all, in bytes; nothing where it does not say.
pub(crate) fn memory() -> Option<u64> {
    let said = fs::read_to_string("/proc/meminfo").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The machine's library: below the folder that was written, else `JAVA_HOME`, else that of `java` on the path, else the newest
/// that is installed.
pub(crate) fn libjvm(written: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(home) = written {
        let library = home.join(LIBJVM);
        return match library.is_file() {
            true => Ok(library),
            false => Err(format!("there is no Java in {}: no {LIBJVM} there", home.display())),
        };
    }
    let from_env = env::var_os("JAVA_HOME").map(PathBuf::from);
    let named = from_env.into_iter().chain(on_path());
    let mut found = named.map(|home| home.join(LIBJVM)).filter(|library| library.is_file());
    found.next().or_else(newest).ok_or_else(|| {
        format!("no Java is found by JAVA_HOME, on the path, or in {}", INSTALLED.join(", "))
    })
}

/// The homes of the commands `java`: each is a link to `HOME/bin/java`, perhaps by way of others.
fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let commands = env::split_paths(&path).map(|folder| folder.join("java"));
    let real = commands.filter_map(|command| fs::canonicalize(command).ok());
    real.filter_map(|command| Some(command.parent()?.parent()?.to_owned())).collect()
}

fn newest() -> Option<PathBuf> {
    let folders = INSTALLED.iter().filter_map(|folder| fs::read_dir(folder).ok());
    let homes = folders.flatten().flatten().map(|entry| entry.path());
    let usable = homes.filter(|home| home.join(LIBJVM).is_file());
    let best = usable.max_by_key(|home| (version(home), home.clone()))?;
    Some(best.join(LIBJVM))
}

/// The version as its file `release` says it: `JAVA_VERSION="17.0.15"`.
fn version(home: &Path) -> u32 {
    let release = fs::read_to_string(home.join("release")).unwrap_or_default();
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
    let digits = line.unwrap_or_default().split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// What stands on the class path, and the archive made of it where there is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Jars {
    pub(crate) class_path: String,
    pub(crate) archive: Option<PathBuf>,
}

/// The jars: in the folder that was written, else in `TIDEGATE_SAXON`, else beside the program or where packages put them.
pub(crate) fn jars(written: Option<&Path>) -> Result<Jars, String> {
    let folder = match written {
        Some(folder) => folder.to_owned(),
        None => usual().into_iter().find(|folder| folder.join(BRIDGE).is_file()).ok_or_else(
            || format!("no {BRIDGE} is found beside the program, nor does TIDEGATE_SAXON name its folder"),
        )?,
    };
    let entries = fs::read_dir(&folder)
        .map_err(|error| format!("cannot read the folder {}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut jars: Vec<PathBuf> =
        paths.filter(|path| path.extension() == Some(OsStr::new("jar"))).collect();
    // The archive was made of this order.
    jars.sort_unstable();
    for (name, what) in [("tidegate-saxon", BRIDGE), ("saxon-he", "jar of Saxon-HE")] {
        let starts = |path: &PathBuf| {
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
    let program = env::current_exe().ok();
    if let Some(beside) = program.as_deref().and_then(Path::parent) {
        // As installed, and as cargo and `make saxon` lay it out.
        folders.extend(["saxon", "../share/tidegate/saxon", "../saxon"].map(|at| beside.join(at)));
    }
    folders.push(PathBuf::from("/usr/share/tidegate/saxon"));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_says_what_it_lacks() {
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
    fn the_version_is_read_of_the_release() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(version(folder.path()), 0);
        let text = "IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\n";
        fs::write(folder.path().join("release"), text).unwrap();
        assert_eq!(version(folder.path()), 17);
    }
}
