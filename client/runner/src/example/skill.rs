//! What the example back end can do, and the words that ask for it.

/// Something that a text may ask for. They are done in this order, wherever the words stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skill {
    /// `/fail`: the turn fails.
    Fail,
    /// `/ask`: asks for approval, and says what was decided.
    Ask,
    /// `/tool`: calls the tool `clock`, whose output is the time in the zone of the turn.
    Tool,
    /// `/calendar`: calls the tool `calendar_write` with the zone of the turn. `/calendar bare` calls it without one, which the tool refuses.
    Calendar { is_bare: bool },
    /// `/slow`: says fifty words, one every 200 ms. It can be interrupted and steered.
    Slow,
    /// `/ui`: the end of the turn says how the reply may be shown.
    Ui,
    /// `/image`: says how many images came, with their types and sizes.
    Image,
    /// `/secret`: says the value of every variable of its environment whose name ends with `KEY`.
    Secret,
}

impl Skill {
    /// What a text asks for, in the order in which it is done.
    pub(super) fn all_of(text: &str) -> Vec<Skill> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let has = |word: &str| words.contains(&word);
        let is_bare = words.windows(2).any(|two| two == ["/calendar", "bare"]);
        [
            (has("/fail"), Skill::Fail),
            (has("/ask"), Skill::Ask),
            (has("/tool"), Skill::Tool),
            (has("/calendar"), Skill::Calendar { is_bare }),
            (has("/slow"), Skill::Slow),
            (has("/ui"), Skill::Ui),
            (has("/image"), Skill::Image),
            (has("/secret"), Skill::Secret),
        ]
        .into_iter()
        .filter_map(|(is_asked, skill)| is_asked.then_some(skill))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_stand_anywhere_and_have_an_order() {
        for (text, skills) in [
            ("", &[][..]),
            ("What is /etc/fail or /failure?", &[]),
            ("please /tool and then /fail", &[Skill::Fail, Skill::Tool]),
            (
                "/secret /image /ui /slow /ask",
                &[Skill::Ask, Skill::Slow, Skill::Ui, Skill::Image, Skill::Secret],
            ),
            ("/calendar tomorrow", &[Skill::Calendar { is_bare: false }]),
            ("a /calendar\nbare one", &[Skill::Calendar { is_bare: true }]),
            ("/slow /slow", &[Skill::Slow]),
        ] {
            assert_eq!(Skill::all_of(text), skills, "{text}");
        }
    }
}
