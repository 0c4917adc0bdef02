//! Tests of the command queue: start, timeouts, replacements and failures.

use super::*;

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn running_command(replacements: &[&str]) -> RunningCommand {
    RunningCommand::new(at(0), replacements.iter().map(|&name| name.to_owned()))
}

/// Runs one step of a command with one source and these replacement states.
fn next_step(command: &mut RunningCommand, seen: &[ReplacementState], minutes: i64) -> Step {
    let names: Vec<_> = command.replacements.iter().map(|awaited| awaited.name.clone()).collect();
    let observe = |name: &str| seen[names.iter().position(|known| known == name).unwrap()];
    command.next_step(observe, 1, 1, at(minutes))
}

#[test]
fn the_command_timeout_grows_with_the_queue() {
    let (minute, second) = (60, 1);
    #[rustfmt::skip]
    let cases = [
        (0,       10 * minute),
        (100,     10 * minute),
        (4_000,   10 * minute),
        (10_000,  13 * minute + 20 * second),
        (40_000,  53 * minute + 20 * second),
        (80_000,  60 * minute),
        (100_000, 60 * minute),
        (usize::MAX, 60 * minute),
    ];
    for (nodes, seconds) in cases {
        assert_eq!(timeout(nodes).as_secs(), seconds, "30/Q-9: {nodes}");
    }
}

#[test]
fn sources_are_terminated_once_all_replacements_initialized() {
    use ReplacementState::{Deleted, Initialized, NotInCache, Starting};
    let mut command = running_command(&["a"]);
    assert_eq!(next_step(&mut command, &[Starting], 1), Step::Wait, "30/Q-1");
    assert_eq!(next_step(&mut command, &[NotInCache], 1), Step::Wait, "30/Q-8");
    assert_eq!(next_step(&mut command, &[Initialized], 2), Step::Terminate, "30/Q-3");
    let mut two = running_command(&["a", "b"]);
    assert_eq!(next_step(&mut two, &[Initialized, Starting], 1), Step::Wait, "30/Q-2");
    assert_eq!(two.uninitialized_count(), 1, "30/Q-2");
    assert_eq!(
        next_step(&mut two, &[Deleted, Initialized], 2),
        Step::Terminate,
        "30/Q-2: it stays"
    );
    assert_eq!(next_step(&mut running_command(&[]), &[], 0), Step::Terminate, "30/Q-4");
}

#[test]
fn a_command_fails_if_a_replacement_is_deleted_or_time_is_up() {
    use ReplacementState::{Deleted, Initialized, NotInCache, Starting};
    let gone = Step::Fail(Failure::ReplacementDeleted { name: "b".to_owned() });
    assert_eq!(
        next_step(&mut running_command(&["a", "b"]), &[Starting, Deleted], 0),
        gone,
        "30/Q-7"
    );
    let Step::Fail(late) =
        next_step(&mut running_command(&["a", "b"]), &[NotInCache, Starting], 11)
    else {
        panic!("30/Q-6");
    };
    let text = "command reached timeout, waiting for replacement initialization, a, b \
                (duration=660s)";
    assert_eq!(late.to_string(), text, "30/Q-6");
    assert_eq!(
        next_step(&mut running_command(&["a"]), &[Starting], 10),
        Step::Wait,
        "just in time"
    );
    let mut ready = running_command(&["a"]);
    assert_eq!(next_step(&mut ready, &[Initialized], 90), Step::Terminate, "ready late is ready");
    assert_eq!(ready.after_failed_delete("no", 1, at(9)), Step::Wait);
    let late = Failure::Timeout { age: SignedDuration::from_mins(90), waiting: "no".to_owned() };
    assert_eq!(ready.after_failed_delete("no", 1, at(90)), Step::Fail(late));
}

#[test]
fn a_command_without_remaining_sources_is_finished() {
    let mut command = running_command(&["a"]);
    let step = command.next_step(|_| ReplacementState::Deleted, 0, 0, at(1));
    assert_eq!(step, Step::Finish);
}

#[test]
fn a_partly_marked_command_proceeds_only_without_replacements() {
    #[rustfmt::skip]
    let cases = [
        ("30/Q-13: delete",  3, 2, false, StartDecision::Proceed),
        ("30/Q-13: replace", 3, 2, true,  StartDecision::Abort),
        ("all",              3, 3, true,  StartDecision::Proceed),
        ("none",             3, 0, false, StartDecision::Abort),
    ];
    for (case, sources, marked, has_replacements, expected) in cases {
        assert_eq!(start_decision(sources, marked, has_replacements), expected, "{case}");
    }
}
