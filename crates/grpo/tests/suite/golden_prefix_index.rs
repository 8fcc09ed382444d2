//! Every recorded prefix index, and what our own densities make of the same prompts.

use crate::official::{KeyError, PrefixIndex};
use crate::support::*;
use rex_grpo::{ProbeDensity, PromptTrie};
use serde_json::Value;

const TOLERANCE: f64 = 1e-12;

fn prompts(case: &Value) -> Vec<Vec<u32>> {
    case["input"]["sequences"].as_array().unwrap().iter().map(ids).collect()
}

#[test]
fn prefix_index() {
    for case in golden("prefix_index.json") {
        let (prompts, expected) = (prompts(&case), &case["expected"]);
        let index = PrefixIndex::new(&prompts);
        assert_eq!(Some(index.vocabulary() as u64), expected["n_vocabulary"].as_u64(), "{}", name(&case));
        assert_eq!(Some(PrefixIndex::prefixes(&prompts) as u64), expected["n_prefixes"].as_u64());
        for query in expected["queries"].as_array().unwrap() {
            let what = format!("{}: {query}", name(&case));
            let found = index.next(&ids(&query[0]), number(&query[1]) as u32);
            match query[2].as_f64() {
                Some(p) => assert_close(found.expect(&what), p, TOLERANCE, &what),
                None => assert_eq!(found, Err(KeyError), "{what}"),
            }
        }
        let token_probs: Vec<_> = prompts.iter().map(|prompt| index.token_probs(prompt).unwrap()).collect();
        assert_rows_close(&token_probs, &matrix(&expected["token_probs"]), TOLERANCE, name(&case));
        let products = vec![token_probs.iter().map(|row| row.iter().product()).collect()];
        assert_rows_close(&products, &[numbers(&expected["sequence_probs"])], TOLERANCE, name(&case));
    }
}

/// Ours on the same pools: the product over a prompt's tokens is the probability with which the pool draws it, first
/// token and end mass included, and where the official rule says the same of a pool, the tokens agree.
#[test]
fn our_densities_are_the_pools() {
    for case in golden("prefix_index.json") {
        let (prompts, index) = (prompts(&case), PrefixIndex::new(&prompts(&case)));
        let trie = PromptTrie::new(&prompts);
        let common_start = prompts.iter().all(|prompt| prompt[0] == prompts[0][0]);
        let prefix_free = prompts.iter().all(|prompt| trie.starting_with(prompt) == trie.equal_to(prompt));
        for prompt in &prompts {
            let density = trie.log_density(prompt, ProbeDensity::Fine).unwrap();
            let share = trie.equal_to(prompt) as f64 / trie.len() as f64;
            assert_close(density.iter().sum::<f64>().exp(), share, 1e-9, name(&case));
            if common_start && prefix_free {
                let ours = density.iter().map(|log| log.exp()).collect();
                assert_rows_close(&[ours], &[index.token_probs(prompt).unwrap()], TOLERANCE, name(&case));
            }
        }
    }
}
