//! The words of the documents and questions: few are frequent and most are rare, as in any text.

use super::super::random::SplitMix64;

/// How many different words there are.
const WORDS: usize = 15_000;

/// The most frequent ones, in this order.
const FREQUENT: &str = "agent the and for code data assistant with your model task search review write text answer \
    question help tool user plan team test report image document file web message language translate summary api \
    support analysis research market price order travel health legal finance music game video news weather map \
    calendar email meeting note memory knowledge graph database query index cloud server network security policy \
    contract invoice tax budget risk trade stock bank customer sales lead product design brand style color photo \
    draft edit grammar spelling tone email summarize extract classify detect predict forecast schedule remind \
    rust python java script query deploy monitor log trace debug build release version branch merge commit issue \
    patient doctor clinic recipe fitness sleep child school teacher student lesson exam math physics chemistry \
    biology history city hotel flight train museum restaurant garden weather energy solar battery robot sensor \
    drone vehicle factory logistics warehouse supply shipping customs farm soil water forest climate";

/// Chinese, which has no spaces between words.
const CHINESE: [&str; 24] = [
    "代码审查",
    "翻译助手",
    "数据分析",
    "智能助理",
    "写作",
    "法律咨询",
    "旅行规划",
    "健康管理",
    "财务报表",
    "客户服务",
    "图像识别",
    "语音合成",
    "机器学习",
    "项目管理",
    "日程安排",
    "新闻摘要",
    "市场研究",
    "教育辅导",
    "编程",
    "测试",
    "文档整理",
    "知识库",
    "搜索引擎",
    "会议记录",
];

/// Every number of the word list.
pub(super) struct Vocabulary {
    words: Vec<String>,
}

impl Vocabulary {
    pub(super) fn new() -> Self {
        let mut words: Vec<String> = Vec::with_capacity(WORDS);
        for word in FREQUENT.split_whitespace() {
            if !words.iter().any(|known| known == word) {
                words.push(word.to_owned());
            }
        }
        let frequent = words.len();
        words.extend((0..WORDS - frequent).map(made_up));
        Self { words }
    }

    /// A word, the first of the list most often: the n-th is about n times rarer.
    pub(super) fn word(&self, random: &mut SplitMix64) -> &str {
        let fraction = random.below(1 << 20) as f64 / f64::from(1 << 20);
        let rank = (self.words.len() as f64).powf(fraction) - 1.0;
        &self.words[rank as usize]
    }

    /// Words with a space between them.
    pub(super) fn words(&self, random: &mut SplitMix64, count: usize) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.word(random)).collect();
        words.join(" ")
    }

    /// One that is typical for a few documents and not in all of them.
    pub(super) fn topic(&self, random: &mut SplitMix64) -> &str {
        &self.words[10 + random.below(400)]
    }

    pub(super) fn chinese(random: &mut SplitMix64, count: usize) -> String {
        (0..count).map(|_| CHINESE[random.below(CHINESE.len())]).collect()
    }
}

/// A word that can be spoken, another one for each number.
fn made_up(mut number: usize) -> String {
    const SYLLABLES: [&str; 27] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta",
        "ve", "wi", "xo", "zu", "tre", "sta", "plo", "gri", "bra", "cle", "sko",
    ];
    let mut word = String::from(SYLLABLES[number % SYLLABLES.len()]);
    number /= SYLLABLES.len();
    for _ in 0..2 {
        word.push_str(SYLLABLES[number % SYLLABLES.len()]);
        number /= SYLLABLES.len();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_differ_and_some_are_frequent() {
        let (vocabulary, mut random) = (Vocabulary::new(), SplitMix64::new(1));
        let different: HashSet<&String> = vocabulary.words.iter().collect();
        assert_eq!(different.len(), WORDS);
        let drawn: Vec<&str> = (0..10_000).map(|_| vocabulary.word(&mut random)).collect();
        let count = |word: &str| drawn.iter().filter(|drawn| **drawn == word).count();
        assert!(count("agent") > count("code") && count("code") > count("solar"), "{}", count("agent"));
        assert!(drawn.iter().collect::<HashSet<_>>().len() > 2_000);
    }
}
