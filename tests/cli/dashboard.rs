//! `capstan dashboard` of files, without a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Folder, path};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/aws");
/// The programs that open a page, on Linux and on macOS.
const OPENERS: [&str; 2] = ["xdg-open", "open"];
/// The deadline of each wait, also on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn dashboard(folder: &Folder) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["dashboard", "--open", "-f", FILES])
        .env("PATH", folder.0.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Running(child)
}

#[cfg(unix)]
#[test]
fn open_starts_the_browser_with_the_printed_address() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new();
    let opened = folder.0.path().join("opened");
    for name in OPENERS {
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > '{}'\n", path(&opened));
        let program = folder.file(name, &script);
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut running = dashboard(&folder);
    let mut address = String::new();
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    output.read_line(&mut address).unwrap();
    assert!(address.starts_with("http://127.0.0.1:"), "{address:?}");
    let expected = format!("1\n{address}");
    let start = Instant::now();
    while std::fs::read_to_string(&opened).unwrap_or_default() != expected {
        assert!(start.elapsed() < SOON, "--open must start the browser with {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn open_without_a_browser_says_so_and_serves_the_page() {
    let folder = Folder::new();
    let mut running = dashboard(&folder);
    let mut address = String::new();
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    output.read_line(&mut address).unwrap();
    let mut note = String::new();
    let mut notes = BufReader::new(running.0.stderr.take().unwrap());
    notes.read_line(&mut note).unwrap();
    assert!(
        note.contains("--open: starting") && note.contains("open the printed address instead"),
        "{note}"
    );
    let (host, page) = address.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut server = TcpStream::connect(host).unwrap();
    write!(
        server,
        "GET /{page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}
