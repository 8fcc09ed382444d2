//! Lists the files of Hopworld for the program to embed: model, questions, corpora. A macro that includes a folder would not
//! notice a new file; cargo watches the folder for this script.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const FOLDER: &str = "assets/hopworld";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join(FOLDER);
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("found under it");
        let name = name.to_str().expect("asset names are UTF-8").replace('\\', "/");
        // Not the path of this checkout: a target directory may be shared with, or have moved from, another one.
        let path = format!("/{FOLDER}/{name}");
        writeln!(
            code,
            "    ({name:?}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?})) as &[u8]),"
        )
        .expect("writing to a string");
    }
    code.push(']');
    fs::write(PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("hopworld.rs"), code)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
