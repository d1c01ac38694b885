//! Two processes on one PostgreSQL read and write the same directory.

use super::*;
use kernel::Engine;
use tokio::task::JoinSet;

#[tokio::test]
async fn two_processes_number_every_change_once_and_find_the_same() {
    let directory = TestDirectory::open().await;
    if directory.test.world.store.engine() == Engine::Sqlite {
        return;
    }
    let other = SearchService::open(&directory.test.world, &Settings::default()).await.unwrap();
    for round in 0..5 {
        for number in 0..20 {
            directory.put(&document(&format!("agent{number}"), &format!("tags: [r{round}]\n"))).await;
        }
        let mut both = JoinSet::new();
        for search in [directory.search.clone(), other.clone()] {
            both.spawn(async move { while search.ingest_page().await.unwrap() == Ingested::More {} });
        }
        both.join_all().await;
    }
    let info = directory.get("search.ap_info", json!({})).await;
    assert_eq!(info["change_cursor_head"], "chg_00000100");
    let mut live = BTreeMap::new();
    directory.follow(&mut live, "chg_00000000".to_owned(), 7).await;
    assert_eq!(live.len(), 20);

    directory.search.index_all().await.unwrap();
    other.index_all().await.unwrap();
    let ask = json!({ "q": "agent", "limit": 50 });
    let (one, two) = (
        directory
            .search
            .clone()
            .query(directory.asker.caller(), serde_json::from_value(ask.clone()).unwrap())
            .await,
        other.query(directory.asker.caller(), serde_json::from_value(ask).unwrap()).await,
    );
    let shown = |page: proto_schemas::requests::search::QueryPage| {
        page.items.into_iter().map(|item| (item.aid, item.score.to_bits())).collect::<Vec<_>>()
    };
    assert_eq!(shown(one.unwrap()), shown(two.unwrap()));
}
