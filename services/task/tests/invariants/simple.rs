//! Tasks as simple as they can be: a list, the table of the protocol as text, and no thought of speed.

use super::*;

pub const AGENTS: [&str; 4] = ["anna", "bert", "carl", "dora"];
pub const ACTIONS: [&str; 8] =
    ["accept", "reject", "send_input", "request_input", "add_artifact", "complete", "fail", "cancel"];
pub const VISIBILITIES: [&str; 3] = ["private", "shared", "public"];
const WEEK_MS: i64 = 7 * DAY_MS;
const OPEN: [&str; 3] = ["submitted", "working", "input_required"];

/// What each action leads to in the open states; a number is refused. `=` keeps the state.
const GRID: [(&str, [&str; 3]); 9] = [
    ("accept", ["working", "-32176", "-32176"]),
    ("reject", ["rejected", "-32171", "-32171"]),
    ("send_input", ["=", "=", "="]),
    ("request_input", ["-32171", "input_required", "-32171"]),
    ("add_artifact", ["-32171", "=", "="]),
    ("delegate", ["-32171", "=", "="]),
    ("complete", ["-32171", "completed", "-32172"]),
    ("fail", ["-32171", "failed", "failed"]),
    ("cancel", ["canceled", "canceled", "canceled"]),
];

#[derive(Clone, Debug)]
pub struct SimpleTask {
    parent: Option<usize>,
    pub state: &'static str,
    pub version: i64,
    pub owner: usize,
    pub assignee: usize,
    pub participants: Vec<usize>,
    visibility: usize,
    required: bool,
    has_artifact: bool,
    due: i64,
}

/// The status that a call is answered, where it is answered one.
type Expected = Result<Option<String>, i32>;

/// What was called, the answer, and when.
type RememberedRequest = (String, Option<String>, i64);

#[derive(Default)]
pub struct SimpleTasks {
    pub rows: Vec<SimpleTask>,
    /// Of tasks, agents and request ids: what was called, the answer, and when.
    requests: BTreeMap<(usize, usize, u8), RememberedRequest>,
    keys: BTreeMap<(usize, u8), (String, i64)>,
}

impl SimpleTasks {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, task: usize) -> &SimpleTask {
        &self.rows[task % self.rows.len()]
    }

    fn root(&self, task: usize) -> usize {
        self.rows[task].parent.map_or(task, |parent| self.root(parent))
    }

    fn below(&self, task: usize) -> Vec<usize> {
        (0..self.rows.len()).filter(|n| self.rows[*n].parent == Some(task)).collect()
    }

    /// Whether, or the code.
    pub fn may_read(&self, task: usize, who: usize) -> Result<(), i32> {
        let (row, root) = (&self.rows[task], self.root(task));
        let of_tree =
            || (0..self.rows.len()).any(|n| self.root(n) == root && self.rows[n].participants.contains(&who));
        let reads = match VISIBILITIES[row.visibility] {
            "private" => row.participants.contains(&who),
            "shared" => of_tree(),
            _ => true,
        };
        match (reads, self.rows[root].owner == who) {
            (true, _) => Ok(()),
            (false, true) => Err(-32175),
            (false, false) => Err(-32170),
        }
    }

    pub fn step(&mut self, step: &TaskStep, now: i64) -> Expected {
        match step.clone() {
            TaskStep::Create { owner, to, visibility, participant, key } => {
                let called = format!("create {to} {visibility} {participant:?}");
                if !self.is_known(owner, key, &called, now)? {
                    let mut participants = vec![owner, to];
                    participants.extend(participant);
                    self.add(None, owner, to, participants, visibility, true, now);
                    self.remember(owner, key, called, now);
                }
                Ok(Some("submitted".to_owned()))
            }
            TaskStep::Act { who, task, action, expects, request } => {
                let task = task % self.rows.len();
                self.act(who, task, ACTIONS[action], expects, request, now)
            }
            TaskStep::Delegate { who, task, to, required, key } => {
                let task = task % self.rows.len();
                if who == to {
                    return Err(-32602);
                }
                self.may(who, task, "delegate")?;
                let called = format!("delegate {task} {to} {required}");
                if !self.is_known(who, key, &called, now)? {
                    self.delegate(who, task, to, required, now)?;
                    self.remember(who, key, called, now);
                }
                Ok(Some("submitted".to_owned()))
            }
            TaskStep::Hours(_) | TaskStep::Timers => Ok(None),
        }
    }

    fn delegate(&mut self, who: usize, task: usize, to: usize, required: bool, now: i64) -> Result<(), i32> {
        self.next(who, task, "delegate")?;
        let root = self.root(task);
        let depth = std::iter::successors(Some(task), |task| self.rows[*task].parent).count();
        let in_tree = (0..self.rows.len()).filter(|n| self.root(*n) == root).count();
        if depth > 5 || self.below(task).len() >= 20 || in_tree > 100 {
            return Err(-32179);
        }
        self.change(task, self.rows[task].state, now);
        self.add(Some(task), who, to, vec![who, to], self.rows[task].visibility, required, now);
        Ok(())
    }

    fn is_known(&self, who: usize, key: Option<u8>, called: &str, now: i64) -> Result<bool, i32> {
        let before = key.and_then(|key| self.keys.get(&(who, key))).filter(|(_, at)| now - at < DAY_MS);
        match before {
            Some((before, _)) if before == called => Ok(true),
            Some(_) => Err(-32602),
            None => Ok(false),
        }
    }

    fn remember(&mut self, who: usize, key: Option<u8>, called: String, now: i64) {
        if let Some(key) = key {
            self.keys.insert((who, key), (called, now));
        }
    }

    fn may(&self, who: usize, task: usize, action: &str) -> Result<(), i32> {
        let row = &self.rows[task];
        if self.may_read(task, who) == Err(-32170) {
            return Err(-32170);
        }
        let root_owner = self.rows[self.root(task)].owner == who;
        match action {
            "cancel" if row.owner == who || root_owner => Ok(()),
            "send_input" if row.participants.contains(&who) => Ok(()),
            "delegate" if row.assignee != who => Err(-32178),
            "cancel" | "send_input" => Err(-32175),
            _ if row.assignee == who => Ok(()),
            _ => Err(-32175),
        }
    }

    fn next(&self, who: usize, task: usize, action: &str) -> Result<&'static str, i32> {
        let row = &self.rows[task];
        let Some(column) = OPEN.iter().position(|open| *open == row.state) else {
            return Err(match row.state {
                "completed" => -32171,
                "failed" => -32186,
                "canceled" => -32173,
                _ => -32177,
            });
        };
        if action == "send_input" && row.state == "input_required" && row.owner == who {
            return Ok("working");
        }
        let cell = GRID.iter().find(|(name, _)| *name == action).unwrap().1[column];
        match cell.parse::<i32>() {
            Ok(code) => Err(code),
            Err(_) if cell == "=" => Ok(row.state),
            Err(_) => Ok(cell),
        }
    }

    fn act(
        &mut self,
        who: usize,
        task: usize,
        action: &str,
        expects: Option<bool>,
        request: Option<u8>,
        now: i64,
    ) -> Expected {
        self.may(who, task, action)?;
        let request = request.map(|request| (task, who, request));
        if let Some(key) = request
            && let Some((before, answer, _)) = self.requests.get(&key).filter(|(.., at)| now - at < DAY_MS)
        {
            return if before == action { Ok(answer.clone()) } else { Err(-32602) };
        }
        let next = self.next(who, task, action)?;
        let blocks = |n: &usize| self.rows[*n].required && OPEN.contains(&self.rows[*n].state);
        if action == "complete" && self.below(task).iter().any(blocks) {
            return Err(-32185);
        }
        if expects == Some(false) {
            return Err(-32171);
        }
        let answer = (action != "add_artifact").then(|| next.to_owned());
        if let Some(key) = request {
            self.requests.insert(key, (action.to_owned(), answer.clone(), now));
        }
        if action == "add_artifact" && self.rows[task].has_artifact {
            return Ok(answer);
        }
        self.rows[task].has_artifact |= action == "add_artifact";
        self.end_or_change(task, next, now);
        Ok(answer)
    }

    fn end_or_change(&mut self, task: usize, next: &'static str, now: i64) {
        if !OPEN.contains(&next) {
            self.cancel_below(task, now);
        }
        self.change(task, next, now);
    }

    fn cancel_below(&mut self, task: usize, now: i64) {
        for child in self.below(task) {
            self.cancel_below(child, now);
            if OPEN.contains(&self.rows[child].state) {
                self.change(child, "canceled", now);
            }
        }
    }

    fn change(&mut self, task: usize, next: &'static str, now: i64) {
        let row = &mut self.rows[task];
        row.due = match next {
            "working" => now + 30 * DAY_MS,
            "input_required" if row.state != next => now + WEEK_MS,
            "input_required" | "submitted" => row.due,
            _ => i64::MAX,
        };
        row.state = next;
        row.version += 1;
    }

    #[expect(clippy::too_many_arguments, reason = "a task has them")]
    fn add(
        &mut self,
        parent: Option<usize>,
        owner: usize,
        assignee: usize,
        participants: Vec<usize>,
        visibility: usize,
        required: bool,
        now: i64,
    ) {
        let due = now + WEEK_MS;
        let state = "submitted";
        let (version, has_artifact) = (1, false);
        self.rows.push(SimpleTask {
            parent,
            state,
            version,
            owner,
            assignee,
            participants,
            visibility,
            required,
            has_artifact,
            due,
        });
    }

    pub fn time_out(&mut self, now: i64) {
        let mut due: Vec<usize> = (0..self.rows.len()).filter(|n| self.rows[*n].due <= now).collect();
        due.sort_by_key(|n| self.rows[*n].due);
        for task in due {
            match self.rows[task].state {
                "submitted" => self.end_or_change(task, "canceled", now),
                "working" | "input_required" => self.end_or_change(task, "failed", now),
                _ => {}
            }
        }
    }

    /// What must be true of every tree at every moment.
    pub fn assert_legal(&self) {
        for (n, row) in self.rows.iter().enumerate() {
            let open = OPEN.contains(&row.state);
            let below = self.below(n);
            let open_below = below.iter().filter(|child| OPEN.contains(&self.rows[**child].state)).count();
            assert!(open || open_below == 0, "nothing is open below what has ended");
            assert!(below.len() <= 20);
        }
    }
}
