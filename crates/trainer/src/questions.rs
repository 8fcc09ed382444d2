//! The order in which a run draws its questions: a fresh permutation an epoch, named by (seed, epoch), so that a
//! position is all the state there is.

use crate::data::Question;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// An endless stream of training questions.
pub struct QuestionStream {
    questions: Vec<Question>,
    shuffle: bool,
    seed: u64,
    /// Questions drawn so far.
    position: usize,
    /// The current epoch and its order.
    order: (usize, Vec<usize>),
}

impl QuestionStream {
    /// # Panics
    /// Without questions: the data loaders refuse empty files.
    pub fn new(questions: Vec<Question>, shuffle: bool, seed: u64, position: usize) -> Self {
        assert!(!questions.is_empty(), "a question stream needs questions");
        let mut stream = Self { questions, shuffle, seed, position, order: (usize::MAX, Vec::new()) };
        stream.order = stream.epoch(position / stream.questions.len());
        stream
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn draw(&mut self, count: usize) -> Vec<Question> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Question {
        let epoch = self.position / self.questions.len();
        if epoch != self.order.0 {
            self.order = self.epoch(epoch);
        }
        let index = self.order.1[self.position % self.questions.len()];
        self.position += 1;
        self.questions[index].clone()
    }

    fn epoch(&self, epoch: usize) -> (usize, Vec<usize>) {
        let mut order: Vec<usize> = (0..self.questions.len()).collect();
        if self.shuffle {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            random.set_stream(epoch as u64);
            order.shuffle(&mut random);
        }
        (epoch, order)
    }
}
