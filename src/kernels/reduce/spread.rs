//! The spread of values: how far they lie from their mean.

/// What the standard deviation of values follows from. The spreads of parts merge into that of the whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread {
    /// How many values.
    pub count: f64,
    /// Their mean; 0 of none.
    pub mean: f64,
    /// The sum of their squared deviations from the mean.
    pub squares: f64,
}

impl Spread {
    /// The spread of these values and those (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    /// variances", 1979). Where all values are equal, every term that it adds is 0.
    pub fn merged(self, other: Self) -> Self {
        let count = self.count + other.count;
        if other.count == 0.0 {
            return self;
        }
        let (apart, share) = (other.mean - self.mean, other.count / count);
        Self {
            count,
            mean: self.mean + apart * share,
            squares: self.squares + other.squares + apart * apart * self.count * share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    fn of(values: &[f64]) -> Spread {
        let one = |&mean: &f64| Spread { count: 1.0, mean, squares: 0.0 };
        values.iter().map(one).fold(Spread::default(), Spread::merged)
    }

    #[test]
    fn the_spreads_of_parts_merge_into_that_of_the_whole() {
        let values = [3.0, 5.0, 1.0, 7.0, 4.0, 4.0, -3.0, 11.0];
        for cut in 0..=values.len() {
            let whole = of(&values[..cut]).merged(of(&values[cut..]));
            assert_eq!(whole.count, 8.0);
            approx::assert_relative_eq!(whole.mean, 4.0, epsilon = 1e-14);
            approx::assert_relative_eq!(whole.squares, 118.0, epsilon = 1e-12);
        }
    }

    #[test]
    fn equal_values_have_no_spread() {
        assert_eq!(of(&[0.1; 77]).squares, 0.0);
        assert_eq!(of(&[]).squares, 0.0);
    }
}
