//! The scenario files, and the files to which their configurations refer, embedded in the program.

use std::fs;
use std::io;
use std::path::Path;

/// Files by their paths from the root of the tree.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../", $path)))),*]
    };
}

/// All embedded files. A test compares them with the folders.
pub const FILES: &[(&str, &str)] = files![
    "bench/scenarios/000-interceptors.yaml",
    "bench/scenarios/001-soap.yaml",
    "bench/scenarios/001-httpbin.yaml",
    "bench/scenarios/001-endurance.yaml",
    "bench/scenarios/002-matrix.yaml",
    "bench/scenarios/003-streams.yaml",
    "bench/scenarios/004-flows.yaml",
    "bench/scenarios/costs-proxy.yaml",
    "bench/scenarios/costs-policies.yaml",
    "bench/scenarios/costs-soap.yaml",
    "bench/scenarios/costs-flows.yaml",
    "bench/scenarios/costs-streams.yaml",
    "bench/scenarios/costs-hub.yaml",
    "bench/scenarios/costs-operations.yaml",
    "bench/scenarios/gateways/interceptors.yaml",
    "bench/scenarios/gateways/soap.yaml",
    "bench/scenarios/gateways/saxon.yaml",
    "bench/scenarios/gateways/endurance-5.yaml",
    "bench/scenarios/gateways/endurance-9.yaml",
    "bench/scenarios/gateways/endurance-10.yaml",
    "bench/scenarios/gateways/jwt.yaml",
    "bench/scenarios/gateways/streams.yaml",
    "bench/scenarios/gateways/flows.yaml",
    "bench/scenarios/gateways/https.yaml",
    "bench/scenarios/gateways/costs-proxy.yaml",
    "bench/scenarios/gateways/costs-tls.yaml",
    "bench/scenarios/gateways/costs-policies.yaml",
    "bench/scenarios/gateways/costs-keys.yaml",
    "bench/scenarios/gateways/costs-flows.yaml",
    "bench/scenarios/gateways/costs-streams.yaml",
    "bench/scenarios/gateways/costs-hub.yaml",
    "bench/scenarios/gateways/costs-routes.yaml",
    "bench/scenarios/gateways/costs-traces.yaml",
    "bench/scenarios/gateways/costs-traces-all.yaml",
    "bench/scenarios/gateways/sums.openapi.yaml",
    "examples/soap/httpbin.yaml",
    "examples/soap/kong-result.xsl",
    "examples/soap/rename.xsl",
    "examples/soap/strip.xsl",
    "examples/soap/ten.xsl",
    "examples/soap/thirteen.xsl",
    "examples/soap/calculator/calculator.wsdl",
    "examples/soap/calculator/calculator.xsd",
    "examples/soap/calculator/invalid.wsdl",
    "examples/soap/calculator/kong-result.wsdl",
    "examples/soap/saxon/company-to-json.xsl",
    "examples/soap/saxon/company.xsd",
    "examples/soap/saxon/json-to-company.xsl",
    "examples/soap/saxon/json-to-soap.xsl",
    "examples/soap/saxon/rename.xsl",
    "examples/soap/saxon/soap-to-json.xsl",
    "examples/integration/back.xsl",
    "examples/integration/there.xsl",
    "examples/integration/stocks.wsdl",
];

/// Returns the scenario files among them.
pub(super) fn scenario_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_scenario =
        |path: &str| path.strip_prefix("bench/scenarios/").is_some_and(|name| !name.contains('/'));
    FILES.iter().copied().filter(move |(path, _)| is_scenario(path))
}

/// Writes all files below a folder.
///
/// # Errors
///
/// If one cannot be written.
pub fn write_files(folder: &Path) -> io::Result<()> {
    for (path, text) in FILES {
        let file = folder.join(path);
        if let Some(above) = file.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(file, text)?;
    }
    Ok(())
}
