//! Makes room in a full map of windows.

use std::collections::HashMap;

/// Drops the windows that have ended. If the map is still full, drops the eighth that ends first, so that many new keys do not each cause a
/// scan of the whole map.
pub(crate) fn make_room<K, V, S, T: Ord + Copy>(
    map: &mut HashMap<K, V, S>,
    max: usize,
    now: T,
    end_of: impl Fn(&V) -> T,
) {
    map.retain(|_, value| end_of(value) > now);
    if map.len() < max {
        return;
    }
    let mut ends: Vec<T> = map.values().map(&end_of).collect();
    let (_, first, _) = ends.select_nth_unstable(max / 8);
    let first = *first;
    map.retain(|_, value| end_of(value) > first);
}
