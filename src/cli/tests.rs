//! Settings as people write them: what is accepted, and that every fault is reported at once.

use clap::{CommandFactory as _, Parser as _};

use super::*;

fn configured(arguments: &str) -> Result<(LogSettings, Job), SettingFaults> {
    let words = std::iter::once("scroll").chain(arguments.split_whitespace());
    Cli::try_parse_from(words).unwrap().configure()
}

fn faults(arguments: &str) -> Vec<String> {
    match configured(arguments) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.each().to_vec(),
    }
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn plain_commands_need_no_settings() {
    for plain in [
        "serve",
        "import -",
        "import x.ndjson --batch 1",
        "check --log default",
        "logs list --json",
        "logs create acme",
        "keys list",
        "keys revoke 1",
        "keys create --log * --scope read --scope admin",
        "keys create --log a --scope write --resource customer --expires-in 30d --name x",
        "capture public.t --resource row --id id --database-url postgres://db/x",
        "capture t --resource row --id id --columns id,n --log acme --backfill --chunk 10000",
        "release public.t",
        "outbox list --json",
        "outbox retry 7",
        "outbox retry --all",
        "outbox drop 7",
        "types check types.toml",
        "serve --log-format json --log-level debug --listen [::1]:0 --metrics-listen 127.0.0.1:9090",
        "serve --cors-origin https://a.example --cors-origin http://localhost:3000 --strict",
        "serve --strict=false --listen 127.0.0.1:0",
        "check --strict --log default",
    ] {
        assert_eq!(faults(plain), Vec::<String>::new(), "{plain}");
    }
}

#[test]
fn every_fault_is_reported_at_once() {
    let said = faults(
        "serve --log-format xml --log-level loud --database-url scroll.db --types /none/types.toml --listen here \
         --metrics-listen 1 --cors-origin * --max-batch 0 --max-body x --max-batch-body 1k --max-batch-operations 0",
    );
    for setting in [
        "--log-format",
        "--log-level",
        "--database-url",
        "--types /none/types.toml",
        "--listen",
        "--metrics-listen",
        "--cors-origin",
        "--max-batch",
        "--max-body",
        "--max-batch-body",
        "--max-batch-operations",
    ] {
        let about = |fault: &&String| fault.starts_with(&format!("{setting}: "));
        assert_eq!(said.iter().filter(about).count(), 1, "{setting}: {said:?}");
    }
    assert_eq!(said.len(), 11, "{said:?}");
}

#[test]
fn a_switch_that_is_neither_on_nor_off_is_a_fault() {
    assert_eq!(faults("serve --strict=ture --types /none/types.toml").len(), 2);
}

#[test]
fn a_key_that_is_asked_for_wrongly_is_told_everything() {
    let said = faults("keys create --log a/b --scope read --scope root --resource A --expires-in 1w --name \u{7}");
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(faults("keys create --log a --scope read --expires-at 2001-01-01T00:00:00Z")[0].contains("over already"));
    assert!(faults("keys create --log a --scope read --expires-at tomorrow")[0].contains("RFC 3339"));
}

#[test]
fn a_capture_is_told_all_its_faults() {
    let said = faults("capture t --resource Row --id id --chunk 0 --database-url x");
    assert_eq!(said.len(), 3, "{said:?}");
    for unclear in ["outbox retry", "outbox retry 7 --all", "capture t --id id"] {
        let words = std::iter::once("scroll").chain(unclear.split_whitespace());
        assert!(Cli::try_parse_from(words).is_err(), "{unclear}");
    }
}

#[test]
fn metrics_need_an_address_of_their_own() {
    assert_eq!(faults("serve --listen 127.0.0.1:80 --metrics-listen 127.0.0.1:80").len(), 1);
    assert!(faults("serve --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0").is_empty());
}

#[test]
fn help_names_default_unit_and_environment_of_every_setting() {
    let mut command = Cli::command();
    command.build();
    let serve = command.find_subcommand_mut("serve").unwrap();
    for argument in serve.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version")) {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let name = argument.get_id();
        assert!(argument.get_env().is_some_and(|env| env.to_string_lossy().starts_with("SCROLL_")), "{name}");
        let has_default = !argument.get_default_values().is_empty() || help.contains("[default");
        assert!(has_default || argument.get_id() == "types", "{name}: {help}");
    }
}
