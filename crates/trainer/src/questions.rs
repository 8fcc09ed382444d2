//! The order in which a run draws its questions or transcripts: a fresh permutation an epoch, named by (seed, epoch),
//! so that a position is all the state there is.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// An endless stream of training data.
pub struct Stream<T> {
    items: Vec<T>,
    shuffle: bool,
    seed: u64,
    /// Items drawn so far.
    position: usize,
    /// The current epoch and its order.
    order: (usize, Vec<usize>),
}

impl<T: Clone> Stream<T> {
    /// # Panics
    /// Without items: the data loaders refuse empty files.
    pub fn new(items: Vec<T>, shuffle: bool, seed: u64, position: usize) -> Self {
        assert!(!items.is_empty(), "an endless stream needs something to repeat");
        let mut stream = Self { items, shuffle, seed, position, order: (usize::MAX, Vec::new()) };
        stream.order = stream.epoch(position / stream.items.len());
        stream
    }

    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes to a position.
    pub fn seek(&mut self, position: usize) {
        self.position = position;
    }

    pub fn draw(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> T {
        let epoch = self.position / self.items.len();
        if epoch != self.order.0 {
            self.order = self.epoch(epoch);
        }
        let index = self.order.1[self.position % self.items.len()];
        self.position += 1;
        self.items[index].clone()
    }

    fn epoch(&self, epoch: usize) -> (usize, Vec<usize>) {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        if self.shuffle {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            random.set_stream(epoch as u64);
            order.shuffle(&mut random);
        }
        (epoch, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(position: usize, shuffle: bool) -> Stream<usize> {
        Stream::new((0..5).collect(), shuffle, 7, position)
    }

    #[test]
    fn an_epoch_holds_every_item_once_and_the_next_has_another_order() {
        let mut stream = stream(0, true);
        let (first, second) = (stream.draw(5), stream.draw(5));
        for epoch in [&first, &second] {
            let mut sorted = epoch.clone();
            sorted.sort();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_ne!(first, second);
        assert_eq!(self::stream(0, false).draw(6), [0, 1, 2, 3, 4, 0]);
    }

    #[test]
    fn a_position_is_all_the_state_there_is() {
        let mut unbroken = stream(0, true);
        let all = unbroken.draw(17);
        for position in [0, 1, 5, 12] {
            assert_eq!(stream(position, true).draw(17 - position), all[position..], "from {position}");
        }
        assert_eq!(unbroken.position(), 17);
    }
}
