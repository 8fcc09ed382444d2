//! Models by their name on the Hugging Face Hub: `owner/name`, or `owner/name@revision` with a branch, a tag or a commit.
//!
//! They are kept where Python's `huggingface_hub` keeps them, and a model that is there whole is not asked for again. The variables
//! are Python's, too: `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`.

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Where models are fetched from and kept.
#[derive(Debug, Clone)]
pub struct Hub {
    pub endpoint: String,
    /// The folder of `models--OWNER--NAME`.
    pub cache: PathBuf,
    pub token: Option<String>,
    /// Only what is in the cache.
    pub offline: bool,
}

/// A model on the Hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubId<'p> {
    /// `owner/name`
    pub repository: &'p str,
    pub revision: Option<&'p str>,
}

/// Hears of a download: the file, its bytes so far, and all of them.
pub type Arrived<'a> = dyn FnMut(&str, u64, u64) + 'a;

/// Why a model cannot be had from the Hub. Each of them began with a path that names nothing on this machine.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(
        "`{id}`: there is no such folder here, and no such model or revision at {endpoint}: check the spelling"
    )]
    NotFound { id: String, endpoint: String },
    #[error(
        "`{id}`: there is no such folder here, and {endpoint} shows no such model ({status}): check the spelling; for a private \
         or gated model accept its terms at {endpoint}/{repository} and set HF_TOKEN"
    )]
    Refused { id: String, repository: String, endpoint: String, status: u16 },
    #[error(
        "`{id}`: there is no such folder here, the model is not whole in {}, and HF_HUB_OFFLINE forbids fetching it",
        cache.display()
    )]
    Offline { id: String, cache: PathBuf },
    #[error("`{id}`: there is no such folder here, and {endpoint} does not answer: {source}")]
    Unreachable { id: String, endpoint: String, source: ApiError },
    #[error("`{id}` has no {file}: expected config.json, tokenizer.json and *.safetensors")]
    MissingFile { id: String, file: String },
    #[error("`{id}`: {file}: {source}; what has arrived is kept, try again")]
    Download { id: String, file: String, source: ApiError },
    #[error("`{id}`: {file} arrived damaged, and was deleted; try again")]
    Damaged { id: String, file: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Index(#[from] rex_model::WeightsError),
    #[error("no home folder: set HF_HOME, the folder for models from the Hub")]
    NoHome,
}

/// What Rex reads besides the weights; the first two must be there.
const FILES: [&str; 5] = [
    "config.json",
    "tokenizer.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];
const REQUIRED: usize = 2;
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

/// How often a download that is cut is gone on with.
const ATTEMPTS: usize = 3;

/// The folder or file of a model: `path` itself where it exists or is no id, and otherwise the folder of the model that has this id,
/// which is fetched if need be.
///
/// # Errors
/// Says what is wrong with the id, the network or the model.
pub fn locate(path: &Path, arrived: &mut Arrived<'_>) -> Result<PathBuf, HubError> {
    match HubId::of(path) {
        Some(id) => Hub::from_env()?.fetch(id, arrived),
        None => Ok(path.to_path_buf()),
    }
}

impl<'p> HubId<'p> {
    /// The id that a path is; `None` for one that exists, and for one that no model can have.
    pub fn of(path: &'p Path) -> Option<Self> {
        Self::named(path).filter(|_| !path.exists())
    }

    /// The id that a path would be if nothing had its name.
    pub(crate) fn named(path: &'p Path) -> Option<Self> {
        let text = path.to_str()?;
        let (repository, revision) = match text.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (text, None),
        };
        let word = |word: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !word.is_empty() && word.chars().all(plain) && !word.starts_with('.') && !word.contains("..")
        };
        let (owner, name) = repository.split_once('/')?;
        let file = name.to_ascii_lowercase().ends_with(".gguf");
        let fits = word(owner) && word(name) && !file && revision.is_none_or(|r| r.split('/').all(word));
        fits.then_some(Self { repository, revision })
    }

    fn at(self, revision: &str) -> Repo {
        Repo::with_revision(self.repository.to_string(), RepoType::Model, revision.to_string())
    }

    fn revision(self) -> &'p str {
        self.revision.unwrap_or("main")
    }
}

impl std::fmt::Display for HubId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.repository)?;
        self.revision.map_or(Ok(()), |revision| write!(f, "@{revision}"))
    }
}

impl Hub {
    /// As the environment says.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub fn from_env() -> Result<Self, HubError> {
        let variable = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
        let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HF_HOME")
            .or_else(|| env::home_dir().map(|home| home.join(".cache/huggingface")))
            .ok_or(HubError::NoHome)?;
        let yes = |value: String| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str());
        let kept_token = || {
            let token = fs::read_to_string(home.join("token")).ok()?;
            Some(token.trim().to_string()).filter(|token| !token.is_empty())
        };
        Ok(Self {
            endpoint: variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_string()),
            token: variable("HF_TOKEN").or_else(kept_token),
            offline: variable("HF_HUB_OFFLINE").is_some_and(yes),
            cache: folder("HF_HUB_CACHE").unwrap_or_else(|| home.join("hub")),
        })
    }

    /// The folder of a model, from the cache or else from the network.
    ///
    /// # Errors
    /// As [`locate`].
    pub fn fetch(&self, id: HubId<'_>, arrived: &mut Arrived<'_>) -> Result<PathBuf, HubError> {
        if let Some(folder) = self.cached(id) {
            return Ok(folder);
        }
        if self.offline {
            return Err(HubError::Offline { id: id.to_string(), cache: self.cache.clone() });
        }
        let api = ApiBuilder::from_cache(Cache::new(self.cache.clone()))
            .with_endpoint(self.endpoint.trim_end_matches('/').to_string())
            .with_token(self.token.clone())
            .with_user_agent("rex", env!("CARGO_PKG_VERSION"))
            .build()
            .map_err(|source| self.unreachable(id, source))?;
        let info = api.repo(id.at(id.revision())).info().map_err(|source| self.unreachable(id, source))?;
        let there: BTreeSet<&str> = info.siblings.iter().map(|file| file.rfilename.as_str()).collect();
        if let Some(file) = FILES[..REQUIRED].iter().find(|file| !there.contains(*file)) {
            return Err(HubError::MissingFile { id: id.to_string(), file: file.to_string() });
        }

        // By commit: what is fetched in several runs belongs together, whatever happens to the branch in between.
        let download = Download { id, api: api.repo(id.at(&info.sha)), kept: self.repository(id, &info.sha) };
        for file in FILES.into_iter().filter(|file| there.contains(file)) {
            download.get(file, arrived)?;
        }
        let weights = if there.contains(INDEX) {
            let path = download.get(INDEX, arrived)?;
            let index = fs::read_to_string(&path).map_err(|source| HubError::Io { path, source })?;
            rex_model::shard_names(&index)?
        } else {
            BTreeSet::from([WEIGHTS.to_string()])
        };
        for file in weights {
            if !there.contains(file.as_str()) {
                return Err(HubError::MissingFile { id: id.to_string(), file });
            }
            download.get(&file, arrived)?;
        }
        // Only now: a branch in the cache is a model that is whole.
        let folder = download.kept.pointer_path(&info.sha);
        self.repository(id, id.revision())
            .create_ref(&info.sha)
            .map_err(|source| HubError::Io { path: folder.clone(), source })?;
        Ok(folder)
    }

    /// The folder of a model that is whole in the cache.
    fn cached(&self, id: HubId<'_>) -> Option<PathBuf> {
        let kept = self.repository(id, id.revision());
        let by_name = kept.get(FILES[0]).and_then(|file| Some(file.parent()?.to_path_buf()));
        let folder = by_name.unwrap_or_else(|| kept.pointer_path(id.revision()));
        let weights = match fs::read_to_string(folder.join(INDEX)) {
            Ok(index) => rex_model::shard_names(&index).ok()?,
            Err(_) => BTreeSet::from([WEIGHTS.to_string()]),
        };
        let needed = FILES[..REQUIRED].iter().copied().chain(weights.iter().map(String::as_str));
        needed.map(|file| folder.join(file)).all(|file| file.exists()).then_some(folder)
    }

    fn repository(&self, id: HubId<'_>, revision: &str) -> CacheRepo {
        Cache::new(self.cache.clone()).repo(id.at(revision))
    }

    fn unreachable(&self, id: HubId<'_>, source: ApiError) -> HubError {
        let (endpoint, repository) = (self.endpoint.clone(), id.repository.to_string());
        match status(&source) {
            Some(404) => HubError::NotFound { id: id.to_string(), endpoint },
            Some(status @ (401 | 403)) => {
                HubError::Refused { id: id.to_string(), repository, endpoint, status }
            }
            _ => HubError::Unreachable { id: id.to_string(), endpoint, source },
        }
    }
}

/// The files of one commit.
struct Download<'i> {
    id: HubId<'i>,
    api: ApiRepo,
    kept: CacheRepo,
}

impl Download<'_> {
    /// A file, from the cache or else from the network; a download that is cut goes on where it stopped.
    fn get(&self, file: &str, arrived: &mut Arrived<'_>) -> Result<PathBuf, HubError> {
        if let Some(path) = self.kept.get(file) {
            return Ok(path);
        }
        let mut attempt = 1;
        let path = loop {
            let meter = Meter { arrived: &mut *arrived, file, done: 0, total: 0 };
            match self.api.download_with_progress(file, meter) {
                Ok(path) => break path,
                Err(source) if attempt == ATTEMPTS || status(&source).is_some_and(|status| status != 416) => {
                    return Err(HubError::Download {
                        id: self.id.to_string(),
                        file: file.to_string(),
                        source,
                    });
                }
                // A part that has all of the file, or more, cannot be gone on with.
                Err(ApiError::InvalidResume) | Err(ApiError::RequestError(_)) => self.forget_parts(),
                Err(_) => {}
            }
            attempt += 1;
        };
        self.check(file, &path)?;
        Ok(path)
    }

    /// Large files are named by their SHA-256.
    fn check(&self, file: &str, path: &Path) -> Result<(), HubError> {
        let io = |source| HubError::Io { path: path.to_path_buf(), source };
        let blob = path.canonicalize().map_err(io)?;
        let name = blob.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.len() != 64 {
            return Ok(());
        }
        let mut digest = Sha256::new();
        let mut bytes = BufReader::with_capacity(1 << 20, File::open(&blob).map_err(io)?);
        while let read = bytes.fill_buf().map_err(io)?
            && !read.is_empty()
        {
            digest.update(read);
            let length = read.len();
            bytes.consume(length);
        }
        let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found == name {
            return Ok(());
        }
        fs::remove_file(path).and_then(|()| fs::remove_file(&blob)).map_err(io)?;
        Err(HubError::Damaged { id: self.id.to_string(), file: file.to_string() })
    }

    fn forget_parts(&self) {
        let blobs = self.kept.blob_path("");
        let entries = fs::read_dir(blobs).into_iter().flatten().flatten().map(|entry| entry.path());
        for part in entries.filter(|path| path.extension().is_some_and(|extension| extension == "part")) {
            // One that stays makes the next attempt fail as this one did.
            let _ = fs::remove_file(part);
        }
    }
}

/// The status with which a server refused.
fn status(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::RequestError(error) => match **error {
            ureq::Error::StatusCode(status) => Some(status),
            _ => None,
        },
        _ => None,
    }
}

struct Meter<'a, 'b, 'f> {
    arrived: &'a mut Arrived<'b>,
    file: &'f str,
    done: u64,
    total: u64,
}

impl Progress for Meter<'_, '_, '_> {
    fn init(&mut self, size: usize, _: &str) {
        (self.done, self.total) = (0, size as u64);
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        (self.arrived)(self.file, self.done, self.total);
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::HubId;
    use std::path::Path;

    #[test]
    fn ids_are_told_from_paths() {
        let id = |text| HubId::of(Path::new(text)).map(|id| (id.repository, id.revision));
        assert_eq!(id("Qwen/Qwen2.5-0.5B"), Some(("Qwen/Qwen2.5-0.5B", None)));
        assert_eq!(id("a/b@v1.0"), Some(("a/b", Some("v1.0"))));
        assert_eq!(id("a/b@refs/pr/1"), Some(("a/b", Some("refs/pr/1"))));
        for path in [
            "",
            "model",
            "/a/b",
            "./a",
            "../a",
            "a/b/c",
            "a/",
            "/b",
            "a/..",
            "~/b",
            "a b/c",
            "models/x.gguf",
            "a/b@",
            "a/b@../c",
            // It exists.
            "src/hub.rs",
        ] {
            assert_eq!(id(path), None, "{path}");
        }
    }
}
