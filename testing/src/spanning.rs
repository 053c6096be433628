//! Minimum spanning trees by a way of their own.

/// The lengths of a minimum spanning tree's edges, ascending, by Prim's algorithm. `far` has the length of the edge between any two rows.
pub fn spanning_lengths(far: &[Vec<f32>]) -> Vec<f32> {
    let mut nearest = far[0].clone();
    let mut outside: Vec<usize> = (1..far.len()).collect();
    let mut lengths = vec![];
    while let Some(place) =
        (0..outside.len()).min_by(|&a, &b| nearest[outside[a]].total_cmp(&nearest[outside[b]]))
    {
        let row = outside.swap_remove(place);
        lengths.push(nearest[row]);
        outside.iter().for_each(|&other| nearest[other] = nearest[other].min(far[row][other]));
    }
    lengths.sort_unstable_by(f32::total_cmp);
    lengths
}
