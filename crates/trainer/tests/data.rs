//! Data files: what is read, and what each fault is called.

use flate2::{Compression, write::GzEncoder};
use rex_trainer::data::{Corpus, DataError, Question, read_corpus, read_questions};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Writes a file of this name and reads it.
fn read<T>(name: &str, bytes: &[u8], reader: impl Fn(&Path) -> Result<T, DataError>) -> Result<T, String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, bytes).unwrap();
    // The folder's name is random: messages are compared without it.
    let prefix = format!("{}/", folder.path().display());
    reader(&file).map_err(|error| error.to_string().replace(&prefix, ""))
}

fn corpus_of(file: &Path) -> Result<Vec<(String, String)>, DataError> {
    let documents = read_corpus(&[file.to_path_buf()])?;
    Ok(documents.into_iter().map(|document| (document.id, document.contents)).collect())
}

fn fixture(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/fixtures/data", file].iter().collect()
}

fn mini(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../assets/mini", file].iter().collect()
}

const ROW: &str = r#"{"id":"q1","question":"Who?","golden_answers":["A","B"],"metadata":{"hops":2}}"#;

#[test]
fn accepted_questions() {
    let check = |name: &str, bytes: &[u8], expected: &[(&str, &str, &str)]| {
        let questions = read(name, bytes, read_questions).unwrap();
        let found: Vec<_> =
            questions.iter().map(|q| (q.id.as_str(), q.question.as_str(), q.data_source.as_str())).collect();
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(bytes));
    };
    let one = [("q1", "Who?", "nq_test")];
    check("nq_test.jsonl", ROW.as_bytes(), &one);
    check("nq_test.jsonl", format!("\n  \n{ROW}\r\n\r\n").as_bytes(), &one);
    check("nq_test.jsonl", format!("\u{feff}{ROW}").as_bytes(), &one);
    check("nq_test.jsonl.gz", &gzip(ROW.as_bytes()), &one);
    // By content, not by name; and several gzip members in a row, as `cat a.gz b.gz` makes them.
    check("nq_test.jsonl", &gzip(ROW.as_bytes()), &one);
    check("nq_test.jsonl.gz", ROW.as_bytes(), &one);
    check(
        "nq_test",
        &[gzip(format!("{ROW}\n").as_bytes()), gzip(ROW.as_bytes())].concat(),
        &[one[0], one[0]],
    );
    check("x.jsonl", br#"{"question":"Who?","golden_answers":["A"]}"#, &[("1", "Who?", "x")]);
    check(
        "x.jsonl",
        br#"{"id":7,"question":"Who?","golden_answers":"A","data_source":"nq"}"#,
        &[("7", "Who?", "nq")],
    );
    let source = br#"{"question":"Who?","golden_answers":["A"],"metadata":{"data_source":"musique"}}"#;
    check("x.jsonl", source, &[("1", "Who?", "musique")]);
}

#[test]
fn refused_questions() {
    let check = |bytes: &[u8], expected: &str| {
        let message = read("q.jsonl", bytes, read_questions).unwrap_err();
        assert_eq!(message, expected, "{}", String::from_utf8_lossy(bytes));
    };
    let empty = "q.jsonl: the file is empty; it must hold at least one line";
    check(b"", empty);
    check(b"\n \r\n", empty);
    check(&gzip(b""), empty);
    let cut_off = "q.jsonl: the gzip data ends too early; the file was cut off, copy or download it again";
    let gzipped = gzip(ROW.as_bytes());
    check(&gzipped[..gzipped.len() / 2], cut_off);
    check(&gzipped[..gzipped.len() - 1], cut_off);
    check(&gzipped[..5], cut_off);

    let after = |line: &str| format!("{ROW}\n\n{line}\n{ROW}").into_bytes();
    let row = |line: &str, expected: &str| check(&after(line), &format!("q.jsonl, line 3: {expected}"));
    let json = "; the file must hold one object a line";
    row("{\"id\": 1", &format!("not a JSON object (EOF while parsing an object at column 8){json}"));
    row("{\"id\" 1}", &format!("not a JSON object (expected `:` at column 7){json}"));
    row("[1]", &format!("not a JSON object (invalid type: sequence, expected a map at column 0){json}"));
    row("null", &format!("not a JSON object (invalid type: null, expected a map at column 4){json}"));
    let needed = "a question has `question` and `golden_answers`";
    row("{}", &format!("the field `question` is missing; {needed}"));
    row(r#"{"question":null}"#, &format!("the field `question` is missing; {needed}"));
    row(r#"{"question":7}"#, "the field `question` must be a string, but is a number");
    row(r#"{"question":" "}"#, "`question` is empty; give its text or remove the row");
    row(r#"{"question":"?"}"#, &format!("the field `golden_answers` is missing; {needed}"));
    let answers = |answers: &str, expected: &str| {
        row(&format!(r#"{{"question":"?","golden_answers":{answers}}}"#), expected);
    };
    answers("7", "the field `golden_answers` must be a list of strings, but is a number");
    answers("{}", "the field `golden_answers` must be a list of strings, but is an object");
    answers(
        r#"["A",true]"#,
        "the field `golden_answers` must be a list of strings only, but is true or false",
    );
    answers("[]", "`golden_answers` is empty; give at least one answer or remove the question");
    let id = r#"{"id":[],"question":"?","golden_answers":["A"]}"#;
    row(id, "the field `id` must be a string or an integer, but is a list");

    let not_utf8 = "q.jsonl, line 2: not UTF-8 text; save the file as UTF-8";
    check(&[ROW.as_bytes(), b"\n{\"question\":\"\xff\"}\n"].concat(), not_utf8);
    let utf16: Vec<u8> = ROW.encode_utf16().flat_map(u16::to_le_bytes).collect();
    check(&[b"\xff\xfe", &utf16[..]].concat(), "q.jsonl, line 1: not UTF-8 text; save the file as UTF-8");
}

#[test]
fn accepted_corpora() {
    let check = |bytes: &[u8], expected: &[(&str, &str)]| {
        let found = read("c.jsonl", bytes, corpus_of).unwrap();
        let found: Vec<_> = found.iter().map(|(id, contents)| (id.as_str(), contents.as_str())).collect();
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(bytes));
    };
    let row = br#"{"id":"0","contents":"\"Ur\"\nA city."}"#;
    check(row, &[("0", "\"Ur\"\nA city.")]);
    check(&gzip(row), &[("0", "\"Ur\"\nA city.")]);
    let numbered = b"{\"id\":12,\"contents\":\"x\",\"title\":\"y\"}\r\n\n{\"id\":12,\"contents\":\"z\"}";
    check(numbered, &[("12", "x"), ("12", "z")]);
}

#[test]
fn refused_corpora() {
    let check = |bytes: &[u8], expected: &str| {
        let message = read("c.jsonl", bytes, corpus_of).unwrap_err();
        assert_eq!(message, expected, "{}", String::from_utf8_lossy(bytes));
    };
    let row = |line: &str, expected: &str| check(line.as_bytes(), &format!("c.jsonl, line 1: {expected}"));
    let needed = "a passage has `id` and `contents` (the title in quotes, a line break, the text)";
    check(b"", "c.jsonl: the file is empty; it must hold at least one line");
    row(r#"{"id":"0"}"#, &format!("the field `contents` is missing; {needed}"));
    row(r#"{"contents":"x"}"#, &format!("the field `id` is missing; {needed}"));
    row(r#"{"id":"0","contents":["x"]}"#, "the field `contents` must be a string, but is a list");
    row(r#"{"id":0.5,"contents":"x"}"#, "the field `id` must be a string or an integer, but is a number");
}

#[test]
fn a_corpus_ends_behind_its_first_error() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("c.jsonl");
    let text = "{\"id\":0,\"contents\":\"x\"}\nbroken\n{\"id\":1,\"contents\":\"x\"}\n";
    fs::write(&file, text).unwrap();
    let mut corpus = Corpus::open(&file).unwrap();
    let kinds: Vec<bool> = corpus.by_ref().map(|document| document.is_ok()).collect();
    assert_eq!(kinds, [true, false]);
    assert_eq!(corpus.bytes_read(), text.len() as u64);
}

#[test]
fn search_r1_parquet() {
    let questions = read_questions(&fixture("search_r1.parquet")).unwrap();
    assert_eq!(questions.len(), 8);
    let sources: BTreeSet<&str> = questions.iter().map(|q| q.data_source.as_str()).collect();
    let all = ["nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"];
    assert_eq!(sources, all.into());
    let Question { id, question, golden_answers, prompt, .. } = &questions[0];
    assert_eq!(id, "nq_test_30");
    assert_eq!(question, "when was the first hunger games book published?");
    assert_eq!(golden_answers, &["September 14, 2008", "2008"]);
    assert!(
        prompt.as_ref().unwrap().ends_with("Question: when was the first hunger games book published?\n")
    );
}

#[test]
fn parquet_with_the_columns_of_verl_only() {
    let whole = read_questions(&fixture("search_r1.parquet")).unwrap();
    let prompt_only = read_questions(&fixture("prompt_only.parquet")).unwrap();
    for (question, whole) in prompt_only.iter().zip(&whole) {
        assert_eq!(question.question, whole.question);
        assert_eq!(question.golden_answers, whole.golden_answers);
        assert_eq!(question.data_source, "prompt_only");
    }
    assert_eq!(prompt_only[7].id, "8");
}

#[test]
fn refused_parquet() {
    let check = |bytes: &[u8], expected: &str| {
        let message = read("q.parquet", bytes, read_questions).unwrap_err();
        assert!(message.starts_with(expected), "{message}");
    };
    let whole = |file| fs::read(fixture(file)).unwrap();
    let needed = "Search-R1's format has `prompt` and `reward_model.ground_truth.target`";
    let missing = |field: &str| format!("q.parquet, row 1: the field `{field}` is missing; {needed}");
    check(&whole("no_reward_model.parquet"), &missing("reward_model.ground_truth.target"));
    check(&whole("no_prompt.parquet"), &missing("prompt"));
    check(&whole("no_rows.parquet"), "q.parquet: the file is empty");
    let bytes = whole("search_r1.parquet");
    for kept in [4, 11, bytes.len() / 2, bytes.len() - 1] {
        check(&bytes[..kept], "q.parquet: a broken parquet file (");
    }
    check(b"\x00\x01 not parquet", "q.parquet, line 1: not a JSON object (");
}

#[test]
fn damaged_parquet_never_panics() {
    let bytes = fs::read(fixture("search_r1.parquet")).unwrap();
    for position in (0..bytes.len()).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[position] ^= 0x55;
        let _ = read("q.parquet", &bytes, read_questions);
    }
}

#[test]
fn a_missing_file_is_named() {
    let missing = Path::new("no/such/questions.jsonl");
    let message = read_questions(missing).unwrap_err().to_string();
    assert!(message.starts_with("cannot read no/such/questions.jsonl: "), "{message}");
    assert!(read_corpus(&[missing.to_path_buf()]).is_err());
    assert!(read_questions(Path::new("/")).is_err());
}

#[test]
fn the_mini_data_is_read() {
    let questions = read_questions(&mini("mini_questions.jsonl")).unwrap();
    let count = |source: &str| questions.iter().filter(|question| question.data_source == source).count();
    assert_eq!(
        (questions.len(), count("hotpotqa"), count("2wikimultihopqa"), count("musique")),
        (60, 20, 20, 20)
    );
    let corpus = read_corpus(&[mini("mini_corpus.jsonl")]).unwrap();
    assert_eq!(corpus.len(), 608);
    assert!(corpus[0].contents.starts_with("\"Ercole Grandi\"\n"));
}
