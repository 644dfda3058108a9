//! Histories that failed once, or that are too rare to be left to chance.

use super::histories::{Step, Write, carry_out};
use crate::support::bed::Bed;
use crate::support::on_every_engine;

const C1: u8 = 0;
const S1: u8 = 2;
const M1: u8 = 5;

async fn a_child_made_and_cascaded_in_one_batch_with_a_restart_behind_it(bed: Bed) {
    let steps = [
        Step::One(Write::Create { entity: C1, value: 0 }),
        Step::Batch(vec![
            Write::Put { entity: S1, value: 0 },
            Write::Delete { entity: C1 },
            Write::Create { entity: C1, value: 1 },
            Write::Put { entity: S1, value: 0 },
        ]),
        Step::Restart,
        Step::One(Write::Delete { entity: C1 }),
        Step::One(Write::Put { entity: S1, value: 3 }),
    ];
    assert_eq!(carry_out(&bed, &steps).await, 9);
}

async fn a_refused_batch_between_two_that_are_carried_out(bed: Bed) {
    let steps = [
        Step::Batch(vec![Write::Create { entity: C1, value: 0 }, Write::Put { entity: M1, value: 0 }]),
        Step::Batch(vec![
            Write::Delete { entity: M1 },
            Write::Put { entity: S1, value: 0 },
            Write::Create { entity: C1, value: 0 },
        ]),
        Step::Restart,
        Step::One(Write::Delete { entity: C1 }),
        Step::Batch(vec![Write::Delete { entity: M1 }, Write::Delete { entity: C1 }]),
    ];
    assert_eq!(carry_out(&bed, &steps).await, 4);
}

on_every_engine! {
    a_child_made_and_cascaded_in_one_batch_with_a_restart_behind_it,
    a_refused_batch_between_two_that_are_carried_out,
}
