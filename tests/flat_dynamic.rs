//! An index whose rows come and go answers like a fresh one of the rows that are left.

mod common;

use common::{Random, gpu, view};
use nearfield::{Device, Error, Flat, Metric, Screen};

const DIM: usize = 6;

fn empty(device: &Device, screen: Screen) -> Flat {
    Flat::builder(device, Metric::L2Squared, DIM).screen(screen).build().expect("an index")
}

#[test]
fn a_removed_row_is_gone_and_its_place_is_used_again() {
    let Some(device) = gpu() else { return };
    for screen in [Screen::None, Screen::I8] {
        let mut random = Random::new(1);
        let rows = random.integers(300 * DIM, 9);
        let mut index = empty(device, screen);
        index.add(view(&rows, DIM)).expect("good rows");
        index.remove(&[7, 100, 299, 298, 7]).expect("they are there");
        assert_eq!(index.len(), 296);
        assert!(!index.contains(100) && index.contains(101));
        let nearest = index.search(view(&rows[700 * DIM / 7..][..DIM], DIM), 300).expect("an answer");
        assert_eq!(nearest.row(0).len(), 296);
        assert!(nearest.row(0).iter().all(|hit| ![7, 100, 298, 299].contains(&hit.id)));
        let error = index.get(100).expect_err("it is gone");
        assert!(matches!(error, Error::UnknownId { id: 100 }), "{error}");
        assert_eq!(index.get(101).expect("it is there"), rows[101 * DIM..][..DIM]);
        // Numbers go on where they were.
        index.add(view(&rows[..4 * DIM], DIM)).expect("good rows");
        assert!((300..304).all(|id| index.contains(id)) && !index.contains(7));
        assert_eq!(index.get(302).expect("it is there"), rows[2 * DIM..][..DIM]);
        assert!(index.ids().eq((0..304).filter(|id| ![7, 100, 298, 299].contains(id))));
        index.update(5, &[0.5; DIM]).expect("a good row");
        assert_eq!(index.get(5).expect("it is there"), [0.5; DIM]);
        assert_eq!(index.len(), 300);
    }
}
