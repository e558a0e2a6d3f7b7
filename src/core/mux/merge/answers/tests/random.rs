//! Any parts, against the model.

use proptest::prelude::*;

use super::model;

proptest! {
    #[test]
    fn merge_says_what_the_model_says(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for kind in (0..).take(model::KINDS) {
            model::check(&[&[kind][..], &bytes].concat());
        }
    }
}
