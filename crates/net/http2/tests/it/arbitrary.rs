//! Arbitrary input, cut in arbitrary ways.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::frames::*;

/// Generates mostly valid frames, in any order.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = prop_oneof![Just(0u32), (0..8u32).prop_map(|n| 2 * n + 1), any::<u32>()];
    let word = prop_oneof![Just(0u32), Just(1), 0..100_000u32, any::<u32>()];
    prop_oneof![
        (0..8u32).prop_map(|n| get(2 * n + 1)),
        (0..8u32).prop_map(|n| post(2 * n + 1)),
        (0..8u32, vec(any::<u8>(), 0..6), 0..2u8).prop_map(|(n, bytes, flags)| frame(
            DATA,
            flags,
            2 * n + 1,
            &bytes
        )),
        (stream.clone(), word.clone()).prop_map(|(stream, word)| window_update(stream, word)),
        (stream.clone(), word).prop_map(|(s, w)| frame(RST_STREAM, 0, s, &w.to_be_bytes())),
        (0..7u8, any::<u32>()).prop_map(|(name, value)| {
            frame(SETTINGS, 0, 0, &[&[0, name], &value.to_be_bytes()[..]].concat())
        }),
        (0..12u8, any::<u8>(), stream, vec(any::<u8>(), 0..40))
            .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload)),
        vec(any::<u8>(), 0..20),
    ]
}

/// Returns the result: the error if any, the requests, the answers and the bodies.
fn outcome(bytes: &[u8], cuts: impl Iterator<Item = usize>) -> String {
    let mut client = Client::new();
    let (mut at, mut ended) = (0, None);
    for cut in cuts.chain([bytes.len()]) {
        let cut = cut.clamp(at, bytes.len());
        if let Err(error) = client.send(&bytes[at..cut]) {
            ended = Some(error);
            break;
        }
        at = cut;
    }
    let answers = client.answers();
    let bodies: Vec<_> = client.requests.clone().iter().map(|n| client.body(*n)).collect();
    format!("{ended:?} {:?} {answers} {bodies:?}", client.requests)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn split_anywhere_it_means_the_same(frames in vec(any_frame(), 1..20), step in 1..30usize) {
        let bytes = frames.concat();
        let whole = outcome(&bytes, std::iter::empty());
        let cut = outcome(&bytes, (0..bytes.len()).step_by(step));
        prop_assert_eq!(whole, cut);
    }

    /// The output consists of valid frames, and at most a few for each received frame.
    #[test]
    fn answers_are_bounded(frames in vec(any_frame(), 1..200)) {
        let mut client = Client::new();
        for frame in &frames {
            if let Err(error) = client.send(frame) {
                client.session.fail(&error);
                break;
            }
        }
        let len = client.session.unsent().len();
        prop_assert!(len <= 64 * (frames.len() + 2), "{} bytes for {} frames", len, frames.len());
        client.answers();
    }
}
