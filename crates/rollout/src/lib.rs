pub mod retrieval;
