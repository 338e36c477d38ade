// SPDX-License-Identifier: Apache-2.0
//! Stable sorting that is small. The standard library's is compiled for each type, some 4 KiB each: a tenth of the
//! program. Here indices are sorted, whatever the type, and then the items follow.

use std::cmp::Ordering;

/// As `slice::sort`.
pub(crate) fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// As `slice::sort_by_key`.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// As `slice::sort_by`.
pub(crate) fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut places = places(items.len(), &mut |one, other| compare(&items[one], &items[other]));
    for at in 0..places.len() {
        while places[at] != at {
            let place = places[at];
            items.swap(at, place);
            places.swap(at, place);
        }
    }
}

/// Where each of so many items belongs.
fn places(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let mut places = vec![0; count];
    for (place, item) in order.into_iter().enumerate() {
        places[item] = place;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every sequence of up to seven items with four keys, which has every order and every pattern of equal ones.
    #[test]
    fn every_short_sequence_is_sorted_and_equal_items_keep_their_order() {
        for count in 0..=7_u32 {
            for number in 0..4_usize.pow(count) {
                let mut items: Vec<_> = (0..count).map(|at| (number >> (2 * at) & 3, at)).collect();
                let mut all = items.clone();
                sort_by_key(&mut items, |(key, _)| *key);
                assert!(items.is_sorted(), "{all:?} became {items:?}");
                all.sort_unstable();
                assert_eq!(items, all, "the same items");
            }
        }
    }

    proptest! {
        #[test]
        fn the_gates_sort_agrees_with_the_standard_librarys(keys in prop::collection::vec(0..9_u8, 0..200)) {
            let items: Vec<_> = keys.into_iter().enumerate().map(|(at, key)| (key, at)).collect();
            let (mut ours, mut theirs) = (items.clone(), items);
            sort_by_key(&mut ours, |(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&ours, &theirs);
            ours.reverse();
            sort(&mut ours);
            prop_assert_eq!(ours, theirs);
        }
    }
}
