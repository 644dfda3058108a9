//! Compressed pages. Every piece is flushed, so a reader gets each as it is made; actix's own middleware
//! would hold small ones back.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// gzip: a little faster than its default, a little larger.
const GZIP_LEVEL: u32 = 5;
/// zstd: its default level, in a window of 512 KiB so that many readers stay small.
const ZSTD_LEVEL: i32 = 3;
const ZSTD_WINDOW_LOG: u32 = 19;
/// brotli: the highest quality that keeps up with the store, in a window of 256 KiB.
const BROTLI_QUALITY: u32 = 4;
const BROTLI_WINDOW_LOG: u32 = 18;
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// A content coding of RFC 9110 that pages may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// As it is.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// Those that are offered, the best first.
    const OFFERED: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// The word for it; `None` where no header is due.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some("gzip"),
            Coding::Brotli => Some("br"),
            Coding::Zstd => Some("zstd"),
        }
    }

    /// The coding for an `Accept-Encoding` (RFC 9110 section 12.5.3): the highest weight wins, ours
    /// decides among equals. Without the header, or with nothing that we offer, it is identity.
    pub fn negotiate(accept_encoding: Option<&str>) -> Coding {
        let accepted: Vec<(&str, f32)> = accept_encoding.unwrap_or_default().split(',').filter_map(weighted).collect();
        let weight = |name: &str| {
            let named = accepted.iter().find(|(accepted, _)| accepted.eq_ignore_ascii_case(name));
            named.or_else(|| accepted.iter().find(|(accepted, _)| *accepted == "*")).map_or(0.0, |(_, weight)| *weight)
        };
        let identity = accepted.iter().find(|(name, _)| name.eq_ignore_ascii_case("identity"));
        let mut best = (Coding::Identity, identity.map_or(0.0, |(_, weight)| *weight));
        for coding in Coding::OFFERED {
            let weight = weight(coding.name().unwrap_or_default());
            let is_better = weight > best.1 || (weight == best.1 && weight > 0.0 && best.0 == Coding::Identity);
            if is_better {
                best = (coding, weight);
            }
        }
        best.0
    }
}

fn weighted(item: &str) -> Option<(&str, f32)> {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    Some((name, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0))))
}

/// Encodes the pieces of one body.
pub enum Encoder {
    /// Hands them on.
    Identity,
    /// gzip.
    Gzip(GzEncoder<Vec<u8>>),
    /// brotli.
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    /// zstd.
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    /// Begins a body.
    pub fn new(coding: Coding) -> io::Result<Encoder> {
        Ok(match coding {
            Coding::Identity => Encoder::Identity,
            Coding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))),
            Coding::Brotli => Encoder::Brotli(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER_BYTES,
                BROTLI_QUALITY,
                BROTLI_WINDOW_LOG,
            ))),
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.window_log(ZSTD_WINDOW_LOG)?;
                Encoder::Zstd(encoder)
            }
        })
    }

    /// One piece, whole: the reader can decode all of it as soon as it arrives.
    pub fn piece(&mut self, piece: Bytes) -> io::Result<Bytes> {
        let out = match self {
            Encoder::Identity => return Ok(piece),
            Encoder::Gzip(encoder) => {
                encoder.write_all(&piece)?;
                encoder.flush()?;
                std::mem::take(encoder.get_mut())
            }
            Encoder::Brotli(encoder) => {
                encoder.write_all(&piece)?;
                encoder.flush()?;
                std::mem::take(encoder.get_mut())
            }
            Encoder::Zstd(encoder) => {
                encoder.write_all(&piece)?;
                encoder.flush()?;
                std::mem::take(encoder.get_mut())
            }
        };
        Ok(Bytes::from(out))
    }

    /// What ends the body; empty for identity.
    pub fn finish(self) -> io::Result<Bytes> {
        Ok(match self {
            Encoder::Identity => Bytes::new(),
            Encoder::Gzip(encoder) => encoder.finish()?.into(),
            Encoder::Brotli(encoder) => encoder.into_inner().into(),
            Encoder::Zstd(encoder) => encoder.finish()?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_highest_weight_wins() {
        for (header, coding) in [
            (None, Coding::Identity),
            (Some(""), Coding::Identity),
            (Some("identity"), Coding::Identity),
            (Some("deflate"), Coding::Identity),
            (Some("gzip, deflate"), Coding::Gzip),
            (Some("gzip, deflate, br, zstd"), Coding::Zstd),
            (Some("GZIP;q=0.9, br;q=0.8"), Coding::Gzip),
            (Some("br;q=0, gzip;q=0.1"), Coding::Gzip),
            (Some("*"), Coding::Zstd),
            (Some("zstd;q=0, *"), Coding::Brotli),
            (Some("identity, gzip;q=0.5"), Coding::Identity),
            (Some("gzip;q=abc"), Coding::Identity),
        ] {
            assert_eq!(Coding::negotiate(header), coding, "{header:?}");
        }
    }

    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Identity => out.extend_from_slice(bytes),
            Coding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out)),
            Coding::Brotli => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out)),
            Coding::Zstd => drop(zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out)),
        }
        out
    }

    #[test]
    fn every_piece_can_be_decoded_when_it_arrives() {
        for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let mut encoder = Encoder::new(coding).unwrap();
            let (mut sent, mut plain) = (Vec::new(), Vec::new());
            for number in 0..50 {
                let piece = format!("{{\"seq\":{number}}}\n").repeat(number + 1);
                plain.extend_from_slice(piece.as_bytes());
                sent.extend_from_slice(&encoder.piece(piece.into()).unwrap());
                assert_eq!(decoded(coding, &sent), plain, "{coding:?} piece {number}");
            }
            sent.extend_from_slice(&encoder.finish().unwrap());
            assert_eq!(decoded(coding, &sent), plain, "{coding:?}");
        }
    }
}
