//! Writes a PNG file: one image with eight bits per channel, compressed.

use std::io::Write as _;

use anyhow::Result;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Encodes rows of pixels, each of red, green and blue.
pub(super) fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let row_bytes = width as usize * 3;
    anyhow::ensure!(
        row_bytes > 0 && pixels.len() == row_bytes * height as usize,
        "too many pixels"
    );
    let mut compressor = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in pixels.chunks(row_bytes) {
        // Filter type 0: none.
        compressor.write_all(&[0])?;
        compressor.write_all(row)?;
    }
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header)?;
    chunk(&mut file, *b"IDAT", &compressor.finish()?)?;
    chunk(&mut file, *b"IEND", &[])?;
    Ok(file)
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], content: &[u8]) -> Result<()> {
    let mut sum = flate2::Crc::new();
    sum.update(&name);
    sum.update(content);
    file.extend(u32::try_from(content.len())?.to_be_bytes());
    file.extend(name);
    file.extend(content);
    file.extend(sum.sum().to_be_bytes());
    Ok(())
}
