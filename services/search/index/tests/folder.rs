//! The folder of an index: who has it, what a crash leaves in it, and what becomes of damage.

use std::fs;
use std::path::Path;

use super::super::IndexError;
use super::*;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    // Files that vanish meanwhile are those of the past.
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let _ = fs::copy(entry.path(), to.join(entry.file_name()));
    }
}

#[test]
fn an_index_that_is_opened_again_has_its_documents_and_generation() {
    let (index, folder) = index();
    assert_eq!((index.generation(), index.documents()), (0, 0));
    index.apply(vec![upsert("x.a.example", "Reviewer", "")], 41).unwrap();
    index.apply(Vec::new(), 42).unwrap();
    assert_eq!(index.generation(), 42, "also without a change");
    drop(index);
    let index = TextIndex::open(folder.path()).unwrap();
    assert_eq!((index.generation(), index.documents()), (42, 1));
    assert_eq!(aids(&index, &plain("reviewer")), ["x.a.example"]);
}

#[test]
fn an_index_that_is_open_is_locked() {
    let (index, folder) = index();
    let error = TextIndex::open(folder.path()).map(drop).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(IndexError::Locked(_))), "{error:#}");
    index.apply(vec![upsert("x.a.example", "n", "")], 1).unwrap();
    assert_eq!(index.documents(), 1, "the other one was not disturbed");
    drop(index);
    TextIndex::open(folder.path()).unwrap();
}

#[test]
fn an_index_that_cannot_be_read_is_made_anew() {
    type Damage = fn(&Path);
    let of_kind = |folder: &Path, end: &str| {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.to_string_lossy().ends_with(end)).collect::<Vec<_>>()
    };
    let cases: [(&str, Damage); 5] = [
        ("meta.json", |file| fs::write(file, "{").unwrap()),
        ("meta.json", |file| {
            fs::write(file, fs::read_to_string(file).unwrap().replace(super::super::TOKENIZER, "words-0"))
                .unwrap()
        }),
        (".idx", |file| fs::remove_file(file).unwrap()),
        (".store", |file| fs::write(file, "").unwrap()),
        (".term", |file| {
            let mut bytes = fs::read(file).unwrap();
            bytes[3] ^= 1;
            fs::write(file, bytes).unwrap();
        }),
    ];
    for (end, damage) in cases {
        let (index, folder) = index();
        index.apply(vec![upsert("x.a.example", "n", "one two")], 7).unwrap();
        drop(index);
        let files = of_kind(folder.path(), end);
        assert!(!files.is_empty(), "{end}");
        files.iter().for_each(|file| damage(file));
        let index = TextIndex::open(folder.path()).unwrap();
        assert_eq!((index.generation(), index.documents()), (0, 0), "{end}");
        index.apply(vec![upsert("x.a.example", "n", "one two")], 7).unwrap();
        assert_eq!(aids(&index, &plain("one")), ["x.a.example"], "{end}");
    }
}

#[test]
fn a_crash_at_any_moment_leaves_a_whole_commit() {
    let (index, folder) = index();
    let copies = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for generation in 1..=40 {
                let number = generation % 10;
                let changes = vec![
                    upsert(&format!("x{number}.a.example"), "n", &format!("generation {generation}")),
                    upsert("last.a.example", &format!("g{generation}"), ""),
                ];
                index.apply(changes, generation).unwrap();
            }
        });
        for number in 0..30 {
            while index.generation() < number && !writer.is_finished() {
                std::thread::yield_now();
            }
            copy(folder.path(), &copies.path().join(number.to_string()));
        }
        writer.join().unwrap();
    });
    let mut opened = 0;
    for entry in fs::read_dir(copies.path()).unwrap() {
        let copied = TextIndex::open(&entry.unwrap().path()).unwrap();
        let generation = copied.generation();
        // A copy is not made in one moment. One whose list of segments is older than its files is made anew.
        if generation > 0 {
            assert_eq!(aids(&copied, &plain(&format!("g{generation}"))), ["last.a.example"]);
            assert_eq!(copied.documents(), 1 + generation.min(10) as u64);
            opened += 1;
        }
    }
    assert!(opened > 0, "no copy was whole");
}

#[test]
fn what_a_commit_that_was_not_finished_left_behind_does_not_stop_the_next() {
    let (index, folder) = index();
    let before = folder.path().join("before");
    // So many that the deletion of one does not cause a merge.
    let first = |number| upsert(&format!("x{number}.a.example"), "n", "one");
    index.apply((0..10).map(first).collect(), 1).unwrap();
    drop(index);
    copy(folder.path(), &before);
    // Tantivy numbers its files from the last commit on, so a process that begins there again uses the same names.
    let index = TextIndex::open(folder.path()).unwrap();
    let changes = || vec![IndexChange::Delete("x3.a.example".into())];
    index.apply(changes(), 2).unwrap();
    drop(index);
    let mut left = 0;
    for entry in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".del") {
            fs::copy(entry.path(), before.join(name)).unwrap();
            left += 1;
        }
    }
    assert!(left > 0, "the commit has files that the next one makes again");
    let index = TextIndex::open(&before).unwrap();
    index.apply(changes(), 2).unwrap();
    assert_eq!((index.generation(), index.documents()), (2, 9));
}

#[test]
fn changes_that_could_not_be_written_are_written_when_they_can() {
    let (index, folder) = index();
    index.apply(vec![upsert("x.a.example", "n", "one")], 1).unwrap();
    let (inside, away) = (folder.path().to_owned(), folder.path().with_extension("away"));
    fs::rename(&inside, &away).unwrap();
    let changes = || vec![upsert("y.a.example", "n", "two"), IndexChange::Delete("x.a.example".into())];
    assert!(index.apply(changes(), 2).is_err());
    assert_eq!((index.generation(), aids(&index, &plain("one"))), (1, vec!["x.a.example".to_owned()]));
    fs::rename(&away, &inside).unwrap();
    index.apply(changes(), 2).unwrap();
    assert_eq!((index.generation(), index.documents()), (2, 1));
    assert_eq!(aids(&index, &plain("two")), ["y.a.example"]);
}

#[test]
fn small_commits_do_not_pile_up() {
    let (index, folder) = index();
    for generation in 1..=90 {
        index
            .apply(vec![upsert(&format!("x{}.a.example", generation % 50), "n", "one")], generation)
            .unwrap();
    }
    // Merges end when they end, and the next query uses what came of them.
    let segments = || {
        index.query(&plain("one"), None, 1).unwrap();
        index.view().segments.len()
    };
    while segments() > 7 {
        std::thread::yield_now();
    }
    drop(index);
    let index = TextIndex::open(folder.path()).unwrap();
    let view = index.view();
    let rows: u32 = view.segments.iter().map(|segment| segment.max_doc()).sum();
    assert!(rows < 90, "{rows} documents, deleted ones included, of which {} are left", index.documents());
    assert_eq!(index.documents(), 50);
}
