//! Renders a demo as a screen that repaints itself, or as lines.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;

use console::{Style, Term};
use karpenter_sim::scenario::Scenario;
use karpenter_sim::timeline::{Entry, Subject};
use karpenter_sim::view::{NodeState, NodeView, PodState, View, WorkloadView};

use super::result::DemoResult;
use crate::commands::{Failure, count_noun, print, write_to_stdout};

/// Hours in a month, as clouds count them.
const HOURS_PER_MONTH: f64 = 730.0;

/// Shows a world to the user.
pub(super) trait Renderer {
    /// Renders the state and the entries since the last frame.
    fn render(&mut self, view: &View, entries: &[Entry]) -> Result<(), Failure>;

    /// Returns whether the output has been closed.
    fn is_closed(&self) -> bool {
        false
    }

    /// Renders the end. `ending` is missing if the user stopped the demo.
    fn render_end(&mut self, view: &View, ending: Option<&DemoResult>) -> Result<(), Failure>;
}

/// Prints one line per entry.
#[derive(Debug, Default)]
pub(super) struct LineRenderer {
    /// Whether the reader has closed the pipe: `karpenter demo | head`.
    is_closed: bool,
}

impl Renderer for LineRenderer {
    fn render(&mut self, _: &View, entries: &[Entry]) -> Result<(), Failure> {
        let text =
            entries.iter().fold(String::new(), |text, entry| text + &entry.to_string() + "\n");
        self.is_closed |= !write_to_stdout(&text)?;
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn render_end(&mut self, view: &View, ending: Option<&DemoResult>) -> Result<(), Failure> {
        print(&summary(view, ending))
    }
}

/// The last words of a demo.
fn summary(view: &View, ending: Option<&DemoResult>) -> String {
    let mut text = String::new();
    let hourly = view.price_per_hour();
    let _ = writeln!(
        text,
        "{}: {}, {} running, ${hourly:.4} per hour (${:.2} per month)",
        if ending.is_some() { "done" } else { "stopped" },
        count_noun(view.nodes.len(), "node"),
        count_noun(usize::try_from(view.count(PodState::Running)).unwrap_or(usize::MAX), "pod"),
        hourly * HOURS_PER_MONTH,
    );
    for line in ending.map(DemoResult::lines).unwrap_or_default() {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Repaints a screen of the terminal.
#[derive(Debug)]
pub(super) struct ScreenRenderer {
    term: Term,
    title: String,
    kubeconfig: Option<PathBuf>,
    recent: VecDeque<Entry>,
    painted_lines: usize,
}

/// How many recent entries are kept; more than fits on any screen.
const RECENT_ENTRIES_MAX: usize = 100;

impl ScreenRenderer {
    pub(super) fn new(scenario: &Scenario, kubeconfig: Option<PathBuf>) -> Self {
        Self {
            term: Term::stdout(),
            title: scenario.name.clone(),
            kubeconfig,
            recent: VecDeque::new(),
            painted_lines: 0,
        }
    }
}

impl Renderer for ScreenRenderer {
    fn render(&mut self, view: &View, entries: &[Entry]) -> Result<(), Failure> {
        self.recent.extend(entries.iter().cloned());
        while self.recent.len() > RECENT_ENTRIES_MAX {
            self.recent.pop_front();
        }
        let (height, width) = self.term.size();
        let lines = screen_lines(
            &self.title,
            self.kubeconfig.as_ref(),
            view,
            self.recent.make_contiguous(),
            usize::from(height).saturating_sub(1),
            usize::from(width),
        );
        // The terminal may be closed: errors are ignored.
        let _ = self.term.clear_last_lines(self.painted_lines);
        let _ = self.term.write_str(&(lines.join("\n") + "\n"));
        let _ = self.term.flush();
        self.painted_lines = lines.len();
        Ok(())
    }

    fn render_end(&mut self, view: &View, ending: Option<&DemoResult>) -> Result<(), Failure> {
        print(&summary(view, ending))
    }
}

/// Returns the lines of a screen: the state, and below it recent entries.
fn screen_lines(
    title: &str,
    kubeconfig: Option<&PathBuf>,
    view: &View,
    recent: &[Entry],
    height: usize,
    width: usize,
) -> Vec<String> {
    let bold = Style::new().bold();
    let hourly = view.price_per_hour();
    let mut lines = vec![
        bold.apply_to(format!("{title}  {:.0}", view.now)).to_string(),
        format!(
            "{}  ${hourly:.4}/h (${:.2}/month)   pods: {} pending  {} bound  {} running  {} ending",
            count_noun(view.nodes.len(), "node"),
            hourly * HOURS_PER_MONTH,
            view.count(PodState::Pending) + view.count(PodState::Unschedulable),
            view.count(PodState::Bound),
            view.count(PodState::Running),
            view.count(PodState::Ending),
        ),
    ];
    if let Some(path) = kubeconfig {
        lines.push(format!("kubectl --kubeconfig {} get nodes,pods -w", path.display()));
    }
    lines.push(String::new());
    // Half of the screen is for what happens.
    let row_count = height.saturating_sub(lines.len() + 4) / 2;
    let is_narrow = width < WIDE_COLUMNS;
    lines.extend(node_rows(&view.nodes, row_count.saturating_mul(2) / 3, is_narrow));
    lines.extend(workload_rows(&view.workloads, row_count / 3));
    lines.push(String::new());
    let left = height.saturating_sub(lines.len());
    let first = recent.len().saturating_sub(left);
    lines.extend(recent[first..].iter().map(entry_line));
    lines.truncate(height);
    lines.iter().map(|line| console::truncate_str(line, width, "…").into_owned()).collect()
}

/// The width for all columns; below it zone and capacity type are left out.
const WIDE_COLUMNS: usize = 125;

/// Formats the columns of a node; a narrow screen has fewer.
fn node_row(is_narrow: bool, node: &str, place: [&str; 3], how: [&str; 5]) -> String {
    let [instance_type, zone, capacity_type] = place;
    let [price, cpu, memory, pods, state] = how;
    let node = console::truncate_str(node, if is_narrow { 14 } else { 24 }, "…");
    if is_narrow {
        return format!(
            "{node:<14} {instance_type:<17} {price:>7} {cpu:<13} {memory:<13} {pods:>4} {state}"
        );
    }
    format!(
        "{node:<24} {instance_type:<20} {zone:<13} {capacity_type:<10} {price:>9}  {cpu:<14} {memory:<14} {pods:>4}  {state}"
    )
}

fn node_rows(nodes: &[NodeView], row_count: usize, is_narrow: bool) -> Vec<String> {
    let place = ["TYPE", "ZONE", "CAPACITY"];
    let mut rows =
        vec![node_row(is_narrow, "NODE", place, ["$/H", "CPU", "MEMORY", "PODS", "STATE"])];
    let row_count = row_count.max(2);
    for node in nodes.iter().take(row_count) {
        let price = node.price.map_or_else(|| "-".to_owned(), |price| format!("{price:.4}"));
        let state = match node.state {
            NodeState::Ready => Style::new().green(),
            NodeState::Starting => Style::new().yellow(),
            NodeState::Cordoned | NodeState::Ending | NodeState::NotReady => Style::new().red(),
        };
        let name = node.name.strip_prefix("kwok-").unwrap_or(&node.name);
        let place = [node.instance_type.as_str(), &node.zone, &node.capacity_type];
        let (cpu, memory, pods) =
            (usage_bar(node.cpu), usage_bar(node.memory), node.pods.to_string());
        let state = state.apply_to(node.state.name()).to_string();
        rows.push(node_row(is_narrow, name, place, [&price, &cpu, &memory, &pods, &state]));
    }
    if nodes.len() > row_count {
        rows.push(format!("… and {} more", nodes.len() - row_count));
    }
    rows
}

/// Returns a bar and a percentage, such as `████░░░░ 50 %`.
fn usage_bar((used, total): (u64, u64)) -> String {
    const WIDTH: u64 = 8;
    if total == 0 {
        return "-".to_owned();
    }
    let full = (used.saturating_mul(WIDTH) / total).min(WIDTH);
    let percent = used.saturating_mul(100) / total;
    let full = usize::try_from(full).unwrap_or_default();
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(8 - full))
}

fn workload_rows(workloads: &[WorkloadView], row_count: usize) -> Vec<String> {
    if workloads.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![String::new(), format!("{:<36} PODS", "WORKLOAD")];
    let row_count = row_count.max(2);
    for workload in workloads.iter().take(row_count) {
        let counts: Vec<String> = workload
            .pods
            .iter()
            .map(|(state, count)| format!("{count} {}", state.name()))
            .collect();
        let message =
            workload.message.as_ref().map_or(String::new(), |message| format!("  ({message})"));
        rows.push(format!("{:<36} {}{message}", workload.name, counts.join(", ")));
    }
    if workloads.len() > row_count {
        rows.push(format!("… and {} more", workloads.len() - row_count));
    }
    rows
}

fn entry_line(entry: &Entry) -> String {
    match entry.subject {
        Subject::Step => Style::new().bold().apply_to(entry).to_string(),
        Subject::Plan => Style::new().green().apply_to(entry).to_string(),
        Subject::Node => Style::new().cyan().apply_to(entry).to_string(),
        Subject::Pods => entry.to_string(),
        Subject::Warning => Style::new().yellow().apply_to(entry).to_string(),
        Subject::Failure => Style::new().red().apply_to(entry).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeView {
        NodeView {
            name: name.to_owned(),
            node_pool: "default".to_owned(),
            instance_type: "c-4x-amd64-linux".to_owned(),
            zone: "test-zone-a".to_owned(),
            capacity_type: "spot".to_owned(),
            price: Some(0.1),
            state: NodeState::Ready,
            pods: 3,
            cpu: (2000, 4000),
            memory: (0, 0),
        }
    }

    #[test]
    fn a_screen_never_has_more_lines_or_columns_than_the_terminal() {
        let view = View {
            nodes: (0..500).map(|number| node(&format!("node-{number}"))).collect(),
            ..View::default()
        };
        for (height, width) in [(0, 0), (1, 10), (24, 80), (50, 200)] {
            let lines = screen_lines("x", None, &view, &[], height, width);
            assert!(lines.len() <= height, "{} lines on {height}", lines.len());
            for line in lines {
                assert!(console::measure_text_width(&line) <= width, "{line}");
            }
        }
    }

    #[test]
    fn the_summary_lists_unsettled_pods_and_violations() {
        let ending = DemoResult {
            unsettled_pods: vec!["default/web: 2 pods left pending (web-1, web-2)".to_owned()],
            unsettled_nodes: vec!["node a is starting".to_owned()],
            violations: vec!["instance kwok://a has no NodeClaim".to_owned()],
        };
        insta::assert_snapshot!(summary(&View { nodes: vec![node("a")], ..View::default() }, Some(&ending)), @r"
        done: 1 node, 0 pods running, $0.1000 per hour ($73.00 per month)
        left over: default/web: 2 pods left pending (web-1, web-2)
        waits for: node a is starting
        left over: instance kwok://a has no NodeClaim
        ");
    }
}
