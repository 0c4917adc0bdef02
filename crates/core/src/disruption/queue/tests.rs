use super::*;

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn running(replacements: &[&str]) -> Running {
    Running::new(at(0), replacements.iter().map(|&name| name.to_owned()))
}

/// One look at a command with one source, with what is seen of each replacement in order.
fn look(command: &mut Running, seen: &[Sighting], minutes: i64) -> Step {
    let names: Vec<_> = command.replacements.iter().map(|awaited| awaited.name.clone()).collect();
    let sighting = |name: &str| seen[names.iter().position(|known| known == name).unwrap()];
    command.next(sighting, 1, 1, at(minutes))
}

#[test]
fn the_time_of_a_command_grows_with_the_queue() {
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
fn sources_go_when_all_replacements_have_been_ready() {
    use Sighting::{Gone, Initialized, Starting, Unseen};
    let mut command = running(&["a"]);
    assert_eq!(look(&mut command, &[Starting], 1), Step::Wait, "30/Q-1");
    assert_eq!(look(&mut command, &[Unseen], 1), Step::Wait, "30/Q-8");
    assert_eq!(look(&mut command, &[Initialized], 2), Step::Terminate, "30/Q-3");
    let mut two = running(&["a", "b"]);
    assert_eq!(look(&mut two, &[Initialized, Starting], 1), Step::Wait, "30/Q-2");
    assert_eq!(two.uninitialized(), 1, "30/Q-2");
    assert_eq!(look(&mut two, &[Gone, Initialized], 2), Step::Terminate, "30/Q-2: it stays");
    assert_eq!(look(&mut running(&[]), &[], 0), Step::Terminate, "30/Q-4");
}

#[test]
fn a_command_fails_with_its_replacement_or_its_time() {
    use Sighting::{Gone, Initialized, Starting, Unseen};
    let gone = Step::Fail(Failure::ReplacementDeleted { name: "b".to_owned() });
    assert_eq!(look(&mut running(&["a", "b"]), &[Starting, Gone], 0), gone, "30/Q-7");
    let Step::Fail(late) = look(&mut running(&["a", "b"]), &[Unseen, Starting], 11) else {
        panic!("30/Q-6");
    };
    let text = "command reached timeout, waiting for replacement initialization, a, b \
                (duration=660s)";
    assert_eq!(late.to_string(), text, "30/Q-6");
    assert_eq!(look(&mut running(&["a"]), &[Starting], 10), Step::Wait, "just in time");
    let mut ready = running(&["a"]);
    assert_eq!(look(&mut ready, &[Initialized], 90), Step::Terminate, "ready late is ready");
    assert_eq!(ready.after_failed_delete("no", 1, at(9)), Step::Wait);
    let late = Failure::Timeout { age: SignedDuration::from_mins(90), waiting: "no".to_owned() };
    assert_eq!(ready.after_failed_delete("no", 1, at(90)), Step::Fail(late));
}

#[test]
fn a_command_whose_sources_are_gone_is_over() {
    let mut command = running(&["a"]);
    let step = command.next(|_| Sighting::Gone, 0, 0, at(1));
    assert_eq!(step, Step::Moot);
}

#[test]
fn half_marked_deletes_go_on_and_replacements_do_not() {
    #[rustfmt::skip]
    let cases = [
        ("30/Q-13: delete",  3, 2, false, Beginning::GoOn),
        ("30/Q-13: replace", 3, 2, true,  Beginning::Abort),
        ("all",              3, 3, true,  Beginning::GoOn),
        ("none",             3, 0, false, Beginning::Abort),
    ];
    for (case, sources, marked, has_replacements, expected) in cases {
        assert_eq!(begin(sources, marked, has_replacements), expected, "{case}");
    }
}
