//! The results of a task, as they are handed in on the command line.

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use proto_schemas::requests::task::NewArtifact;
use serde_json::value::to_raw_value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What the server takes as the content of one artifact, and of all artifacts of a task.
const ARTIFACT_BYTES: u64 = 256 << 10;
const ALL_BYTES: u64 = 1 << 20;

/// Media types of texts, by the end of a file's name.
const MEDIA_TYPES: [(&str, &str); 16] = [
    ("md", "text/markdown"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("rs", "text/x-rust"),
    ("py", "text/x-python"),
    ("patch", "text/x-diff"),
];

#[derive(Args)]
pub(super) struct ArtifactArgs {
    /// Add this file as a result; repeatable
    #[arg(long = "artifact", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Add this text as a result; repeatable
    #[arg(long = "text", value_name = "NAME=TEXT", value_parser = named_text)]
    texts: Vec<(String, String)>,
}

impl ArtifactArgs {
    pub fn read(&self) -> anyhow::Result<Vec<NewArtifact>> {
        let mut all = Vec::new();
        for file in &self.files {
            all.push(read_file(file)?);
        }
        for (name, text) in &self.texts {
            let what = format!("the text {name}");
            all.push(artifact(&what, name, media_type(Path::new(name)), text)?);
        }
        let (mut ids, mut bytes) = (BTreeSet::new(), 0);
        for (artifact, length) in &all {
            let id = artifact.id.as_str();
            ensure!(ids.insert(id), "two artifacts are named {id}: names must be unique");
            bytes += length;
        }
        ensure!(
            bytes <= ALL_BYTES,
            "the artifacts have {bytes} bytes, and those of a task have at most {ALL_BYTES}: store them elsewhere, \
             and add artifacts with their refs"
        );
        Ok(all.into_iter().map(|(artifact, _)| artifact).collect())
    }
}

fn read_file(file: &Path) -> anyhow::Result<(NewArtifact, u64)> {
    let shown = file.display();
    let about = fs::metadata(file).with_context(|| format!("{shown} cannot be read"))?;
    ensure!(about.is_file(), "{shown} is not a file");
    // Not read before its length is known: nobody wants to wait for a large one that is refused.
    check_length(&shown.to_string(), about.len())?;
    let bytes = fs::read(file).with_context(|| format!("{shown} cannot be read"))?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("{shown} is not text: store it elsewhere, and add an artifact with its ref");
    };
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{shown} has no name that can be sent"))?;
    artifact(&shown.to_string(), name, media_type(file), &text)
}

/// An artifact, and how many bytes its content has.
fn artifact(what: &str, name: &str, media_type: &str, text: &str) -> anyhow::Result<(NewArtifact, u64)> {
    let bytes = text.len() as u64;
    check_length(what, bytes)?;
    let unfit = |flaw: String| anyhow!("{what} cannot be added as {name:?}: {flaw}");
    let artifact = NewArtifact {
        id: name.parse().map_err(unfit)?,
        kind: "text".parse().map_err(unfit)?,
        name: Some(name.parse().map_err(unfit)?),
        mime_type: Some(media_type.parse().map_err(unfit)?),
        content: Some(to_raw_value(text)?),
        reference: None,
        size_bytes: None,
        sha256: None,
    };
    Ok((artifact, bytes))
}

fn check_length(what: &str, bytes: u64) -> anyhow::Result<()> {
    ensure!(
        bytes <= ARTIFACT_BYTES,
        "{what} has {bytes} bytes, and an artifact has at most {ARTIFACT_BYTES}: store it elsewhere, \
         and add an artifact with its ref"
    );
    Ok(())
}

fn media_type(file: &Path) -> &'static str {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    MEDIA_TYPES.iter().find(|(known, _)| *known == end).map_or("text/plain", |(_, media_type)| *media_type)
}

fn named_text(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, text)) if !name.is_empty() => Ok((name.to_owned(), text.to_owned())),
        _ => Err("expected NAME=TEXT, such as summary=done".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(files: &[&Path], texts: &[(&str, &str)]) -> ArtifactArgs {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let files = files.iter().map(|file| file.to_path_buf()).collect();
        ArtifactArgs { files, texts: texts.iter().map(own).collect() }
    }

    #[test]
    fn files_and_texts_have_names_and_media_types() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Report.MD");
        fs::write(&file, "no risk").unwrap();
        let all = args(&[&file], &[("note", "fine")]).read().unwrap();
        let shown: Vec<_> =
            all.iter().map(|one| (one.id.as_str(), one.mime_type.as_ref().unwrap().as_str())).collect();
        assert_eq!(shown, [("Report.MD", "text/markdown"), ("note", "text/plain")]);
        assert_eq!(all[0].content.as_ref().unwrap().get(), r#""no risk""#);
        assert_eq!(named_text("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(named_text("=b").is_err() && named_text("b").is_err());
    }

    #[test]
    fn what_does_not_fit_is_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let refused =
            |files: &[&Path], texts: &[(&str, &str)]| args(files, texts).read().unwrap_err().to_string();
        let large = path("large.txt", &vec![b'x'; (256 << 10) + 1]);
        let sentence = refused(&[&large], &[]);
        assert!(
            sentence.contains("large.txt has 262145 bytes") && sentence.contains("at most 262144"),
            "{sentence}"
        );
        assert!(refused(&[&path("image", &[0xff, 0xfe])], &[]).contains("is not text"));
        assert!(refused(&[&folder.path().join("nothing")], &[]).contains("cannot be read"));
        assert!(refused(&[folder.path()], &[]).contains("is not a file"));
        assert!(refused(&[], &[("a", "1"), ("a", "2")]).contains("names must be unique"));
        let most = path("most.txt", &vec![b'x'; 256 << 10]);
        let text = "y".repeat(256 << 10);
        let texts = [("a", text.as_str()), ("b", text.as_str()), ("c", text.as_str()), ("d", "z")];
        assert!(refused(&[&most], &texts).contains("at most 1048576"));
        assert!(args(&[&most], &texts[..3]).read().is_ok());
    }
}
