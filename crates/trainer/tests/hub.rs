//! Models from the Hub, against a server that does what the Hub does: file lists by revision, redirects with ETags, ranges,
//! refusals, and downloads that are cut.

use rex_trainer::hub::{Hub, HubError, HubId};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What is on the server, and how it behaves.
struct Site {
    /// A folder of rex-model's fixtures.
    model: &'static str,
    without: &'static str,
    /// Weights whose first download is cut, and whose bytes are spoilt.
    cut: Option<&'static str>,
    spoilt: bool,
    token: Option<&'static str>,
    asked: Mutex<Vec<String>>,
}

impl Site {
    fn new(model: &'static str) -> Self {
        Self { model, without: "", cut: None, spoilt: false, token: None, asked: Mutex::default() }
    }

    fn serve(self) -> (String, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (site, endpoint) = (Arc::new(self), address.clone());
        let shared = site.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (site, endpoint) = (shared.clone(), endpoint.clone());
                thread::spawn(move || site.connection(stream.unwrap(), &endpoint));
            }
        });
        (address, site)
    }

    fn connection(&self, mut stream: TcpStream, endpoint: &str) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_string());
            }
            let path = head[0].split(' ').nth(1).unwrap().to_string();
            let header = |name: &str| {
                head.iter().find_map(|line| {
                    let (key, value) = line.split_once(": ")?;
                    key.eq_ignore_ascii_case(name).then(|| value.to_string())
                })
            };
            let start = header("range").and_then(|range| {
                let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
                Some((start.parse::<usize>().ok()?, end.parse::<usize>().ok()))
            });
            self.asked.lock().unwrap().push(path.clone());
            let allowed =
                self.token.is_none_or(|token| header("authorization") == Some(format!("Bearer {token}")));
            if !self.answer(&mut stream, &path, start, allowed, endpoint) {
                return;
            }
        }
    }

    /// False closes the connection.
    fn answer(
        &self,
        stream: &mut TcpStream,
        path: &str,
        range: Option<(usize, Option<usize>)>,
        allowed: bool,
        endpoint: &str,
    ) -> bool {
        let status = |stream: &mut TcpStream, line: &str| {
            write!(stream, "HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n").is_ok()
        };
        let folder = fixtures().join(self.model);
        let files = || {
            let names = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            names.filter(|name| *name != self.without).collect::<Vec<_>>()
        };
        if let Some(rest) = path.strip_prefix("/api/models/org/tiny/revision/") {
            if !allowed {
                return status(stream, "401 Unauthorized");
            }
            if !["main", "v1", COMMIT].contains(&rest) {
                return status(stream, "404 Not Found");
            }
            let siblings: Vec<_> =
                files().iter().map(|name| serde_json::json!({"rfilename": name})).collect();
            let body = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
            let length = body.len();
            return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").is_ok();
        }
        if path.starts_with("/api/models/org/gated/") {
            return status(stream, "403 Forbidden");
        }
        let resolved = path.strip_prefix(&format!("/org/tiny/resolve/{COMMIT}/"));
        let Some(name) =
            resolved.or(path.strip_prefix("/cdn/")).filter(|name| files().contains(&name.to_string()))
        else {
            return status(stream, "404 Not Found");
        };
        let mut bytes = fs::read(folder.join(name)).unwrap();
        let large = name.ends_with(".safetensors");
        let etag = match large {
            true => Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
            false => format!("{:040x}", name.len()),
        };
        if large && resolved.is_some() {
            return write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {endpoint}/cdn/{name}\r\nX-Linked-Etag: \"{etag}\"\r\nX-Repo-Commit: \
                 {COMMIT}\r\nContent-Length: 0\r\n\r\n"
            )
            .is_ok();
        }
        if large && self.spoilt {
            bytes[100] ^= 1;
        }
        let (start, end) = range.unwrap_or((0, None));
        if start >= bytes.len() {
            return status(stream, "416 Range Not Satisfiable");
        }
        let total = bytes.len();
        let part = &bytes[start..end.map_or(total, |end| end + 1)];
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"{etag}\"\r\nX-Repo-Commit: {COMMIT}\r\nContent-Range: bytes \
             {start}-{}/{total}\r\nContent-Length: {}\r\n\r\n",
            start + part.len() - 1,
            part.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        if self.cut == Some(name) && start == 0 && end.is_none() {
            stream.write_all(&part[..part.len() / 2]).unwrap();
            return false;
        }
        stream.write_all(part).is_ok()
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures")
}

fn hub(endpoint: &str, cache: &Path) -> Hub {
    Hub { endpoint: endpoint.to_string(), cache: cache.to_path_buf(), token: None, offline: false }
}

fn fetch(hub: &Hub, id: &str) -> Result<PathBuf, HubError> {
    hub.fetch(HubId::of(Path::new(id)).unwrap(), &mut |_, _, _| {})
}

#[test]
fn a_model_is_fetched_once_and_then_found() {
    // One with shards, one without.
    for model in ["qwen2", "llama"] {
        let cache = tempfile::tempdir().unwrap();
        let (endpoint, site) = Site::new(model).serve();
        let mut hub = hub(&endpoint, cache.path());
        let mut seen = Vec::new();
        let id = HubId::of(Path::new("org/tiny")).unwrap();
        let folder =
            hub.fetch(id, &mut |file, done, total| seen.push((file.to_string(), done, total))).unwrap();
        assert!(folder.ends_with(format!("models--org--tiny/snapshots/{COMMIT}")), "{}", folder.display());
        let device = burn::tensor::Device::flex();
        let (ours, theirs) =
            (rex_model::load(&folder, &device), rex_model::load(&fixtures().join(model), &device));
        assert_eq!(ours.unwrap().config, theirs.unwrap().config);
        let (file, done, total) = seen.last().unwrap();
        assert!(file.ends_with(".safetensors") && done == total, "{file}: {done} of {total}");

        let asked = site.asked.lock().unwrap().clone();
        assert!(!asked.iter().any(|path| path.contains("expected") || path.contains("texts")), "{asked:?}");
        for offline in [false, true] {
            hub.offline = offline;
            assert_eq!(fetch(&hub, "org/tiny").unwrap(), folder);
            assert_eq!(fetch(&hub, &format!("org/tiny@{COMMIT}")).unwrap(), folder);
        }
        assert_eq!(site.asked.lock().unwrap().len(), asked.len(), "the network was asked again");
    }
}

#[test]
fn a_download_that_is_cut_goes_on() {
    let cache = tempfile::tempdir().unwrap();
    let site = Site { cut: Some("model-00002-of-00002.safetensors"), ..Site::new("qwen2") };
    let (endpoint, _) = site.serve();
    let folder = fetch(&hub(&endpoint, cache.path()), "org/tiny@v1").unwrap();
    let name = "model-00002-of-00002.safetensors";
    assert_eq!(fs::read(folder.join(name)).unwrap(), fs::read(fixtures().join("qwen2").join(name)).unwrap());
}

/// What a process left that was killed just before the end, and one that was cut before its last file.
#[test]
fn what_another_process_left_is_gone_on_with() {
    let cache = tempfile::tempdir().unwrap();
    let (endpoint, _) = Site::new("llama").serve();
    let hub = hub(&endpoint, cache.path());
    let folder = fetch(&hub, "org/tiny").unwrap();
    let weights = folder.join("model.safetensors");
    let blob = weights.canonicalize().unwrap();
    let bytes = fs::read(&blob).unwrap();
    for left in [0, bytes.len() / 3, bytes.len(), bytes.len() + 5] {
        fs::remove_file(&weights).unwrap();
        fs::rename(&blob, blob.with_extension("part")).unwrap();
        fs::write(blob.with_extension("part"), [&bytes[..], &[0; 5]].concat().get(..left).unwrap()).unwrap();
        assert_eq!(fetch(&hub, "org/tiny").unwrap(), folder, "{left} bytes");
        assert!(fs::read(&weights).unwrap() == bytes, "{left} bytes");
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    let cache = tempfile::tempdir().unwrap();
    let check = |hub: &Hub, id: &str, words: &[&str]| {
        let message = fetch(hub, id).expect_err(id).to_string();
        assert!(
            message.contains(id) && words.iter().all(|word| message.contains(word)),
            "{words:?}: {message}"
        );
    };
    let (endpoint, _) = Site::new("llama").serve();
    let online = hub(&endpoint, cache.path());
    check(&online, "org/other", &["no such folder", "no such model", &endpoint]);
    check(&online, "org/tiny@v2", &["no such model or revision"]);
    check(&online, "org/gated", &["403", "gated", "HF_TOKEN"]);
    let offline = Hub { offline: true, ..online.clone() };
    check(&offline, "org/tiny", &["HF_HUB_OFFLINE", &cache.path().display().to_string()]);
    let (endpoint, _) = Site { token: Some("secret"), ..Site::new("llama") }.serve();
    let refused = hub(&endpoint, cache.path());
    check(&refused, "org/tiny", &["401", "HF_TOKEN"]);
    for (without, model) in
        [("tokenizer.json", "llama"), ("model.safetensors", "llama"), ("config.json", "qwen2")]
    {
        let (endpoint, _) = Site { without, ..Site::new(model) }.serve();
        check(&hub(&endpoint, cache.path()), "org/tiny", &[without]);
    }
    let (endpoint, _) = Site { spoilt: true, ..Site::new("llama") }.serve();
    check(&hub(&endpoint, cache.path()), "org/tiny", &["model.safetensors", "damaged"]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&hub(&format!("http://{nobody}"), cache.path()), "org/tiny", &["does not answer"]);

    // After all that, and with the right token, it is fetched.
    let (endpoint, _) = Site { token: Some("secret"), ..Site::new("llama") }.serve();
    let allowed = Hub { token: Some("secret".into()), ..hub(&endpoint, cache.path()) };
    assert!(fetch(&allowed, "org/tiny").is_ok());
}
