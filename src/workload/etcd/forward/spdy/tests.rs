use proptest::prelude::*;

use super::*;

/// A port-forward whose peer is the test.
struct Session {
    peer: DuplexStream,
    local: DuplexStream,
    report: oneshot::Receiver<String>,
}

impl Session {
    fn start() -> Self {
        let (peer, transport) = tokio::io::duplex(1 << 20);
        let (local, inner) = tokio::io::duplex(1 << 20);
        let (sender, report) = oneshot::channel();
        tokio::spawn(run(transport, 2379, inner, sender));
        Self { peer, local, report }
    }

    async fn peer_sends(&mut self, frames: &[&[u8]]) {
        self.peer.write_all(&frames.concat()).await.unwrap();
    }

    /// Closes the peer. Returns what the local side read, and the report.
    async fn end(mut self) -> (Vec<u8>, Option<String>) {
        drop(self.peer);
        let mut read = Vec::new();
        self.local.read_to_end(&mut read).await.unwrap();
        (read, self.report.try_recv().ok())
    }
}

fn data(stream: u32, flags: u8, content: &[u8]) -> Vec<u8> {
    [&frame(stream, flags, content.len()), content].concat()
}

/// The frames of the other side: the first four bytes, the flags, and the contents.
async fn frames(peer: &mut DuplexStream, count: usize) -> Vec<([u8; 4], u8, Vec<u8>)> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut head = [0; 8];
        peer.read_exact(&mut head).await.unwrap();
        let mut content = vec![0; u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize];
        peer.read_exact(&mut content).await.unwrap();
        all.push(([head[0], head[1], head[2], head[3]], head[4], content));
    }
    all
}

#[tokio::test]
async fn the_streams_are_opened_with_their_headers() {
    let mut session = Session::start();
    let opened = frames(&mut session.peer, 2).await;
    for ((head, flags, content), stream, kind, sent_flags) in
        [(&opened[0], 1_u8, "error", FIN), (&opened[1], 3, "data", 0)]
    {
        assert_eq!((head, *flags), (&[0x80, 3, 0, 1], sent_flags));
        assert_eq!(content[..10], [0, 0, 0, stream, 0, 0, 0, 0, 0, 0]);
        let mut block = &content[10..];
        if stream == 1 {
            // RFC 1950: the two bytes are a multiple of 31.
            assert_eq!(u16::from_be_bytes([block[0], block[1]]) % 31, 0);
            block = &block[2..];
        }
        // RFC 1951: a stored block that is not the last one, and an empty one.
        let length = u16::from_le_bytes([block[1], block[2]]);
        assert_eq!((block[0], u16::from_le_bytes([block[3], block[4]])), (0, !length));
        let (headers, empty) = block[5..].split_at(usize::from(length));
        assert_eq!(empty, [0, 0, 0, 0xff, 0xff]);
        let text = String::from_utf8_lossy(headers).replace('\0', "");
        assert_eq!(
            text,
            format!("\u{3}\nstreamtype\u{5}{kind}\u{4}port\u{4}2379\trequestid\u{1}0")
                .replace("\u{5}data", "\u{4}data")
        );
    }
}

#[tokio::test]
async fn bytes_pass_in_both_directions() {
    let mut session = Session::start();
    let large = vec![7; 3 * CHUNK + 1];
    session.local.write_all(b"request").await.unwrap();
    let sent = frames(&mut session.peer, 3).await;
    assert_eq!(sent[2], ([0, 0, 0, 3], 0, b"request".to_vec()));
    session
        .peer_sends(&[&data(DATA, 0, b"answer"), &data(DATA, 0, b""), &data(DATA, 0, &large)])
        .await;
    let (read, report) = session.end().await;
    assert_eq!((&read[..6], &read[6..]), (&b"answer"[..], &large[..]));
    assert_eq!(report, None);
}

#[tokio::test]
async fn the_peer_learns_that_the_local_side_ended() {
    let Session { mut peer, local, .. } = Session::start();
    drop(local);
    let sent = frames(&mut peer, 3).await;
    assert_eq!(sent[2], ([0, 0, 0, 3], FIN, Vec::new()));
    assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_report_comes_before_the_end_of_the_stream() {
    let mut session = Session::start();
    session
        .peer_sends(&[
            &data(ERROR, 0, b"connection "),
            &data(ERROR, FIN, b"refused"),
            &data(DATA, 0, b"late"),
        ])
        .await;
    let mut read = Vec::new();
    session.local.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"");
    assert_eq!(session.report.try_recv().unwrap(), "connection refused");
}

#[tokio::test]
async fn a_stream_for_reports_that_ends_without_a_report_ends_nothing() {
    let mut session = Session::start();
    let reset = control(RST_STREAM, 0, &[0, 0, 0, 1, 0, 0, 0, 5]);
    session
        .peer_sends(&[&data(ERROR, FIN, b""), &reset, &data(DATA, FIN, b"more")])
        .await;
    assert_eq!(session.end().await, (b"more".to_vec(), None));
}

#[tokio::test]
async fn a_long_report_is_cut() {
    let mut session = Session::start();
    session
        .peer_sends(&[&data(ERROR, FIN, &[b'e'; 2 * LONGEST_REPORT])])
        .await;
    let (_, report) = session.end().await;
    assert_eq!(report.unwrap().len(), LONGEST_REPORT);
}

#[tokio::test]
async fn pings_are_answered_and_other_frames_are_skipped() {
    let mut session = Session::start();
    let settings = control(4, 0, &[0; 12]);
    let reply = control(SYN_REPLY, 0, &[0, 0, 0, 3, 1, 2, 3, 4, 5]);
    let own_ping = control(PING, 0, &[0, 0, 0, 1]);
    let ping = control(PING, 0, &[0, 0, 0, 2]);
    session
        .peer_sends(&[
            &settings,
            &reply,
            &own_ping,
            &ping,
            &data(5, FIN, b"other"),
            &data(DATA, 0, b"x"),
        ])
        .await;
    let sent = frames(&mut session.peer, 3).await;
    assert_eq!(sent[2], ([0x80, 3, 0, 6], 0, vec![0, 0, 0, 2]));
    assert_eq!(session.end().await, (b"x".to_vec(), None));
}

#[tokio::test]
async fn every_way_to_end_the_stream_ends_the_port_forward() {
    let reset = control(RST_STREAM, 0, &[0, 0, 0, 3, 0, 0, 0, 5]);
    let closed = control(SYN_REPLY, FIN, &[0, 0, 0, 3]);
    let away = control(GOAWAY, 0, &[0; 8]);
    for (end, reported) in [
        (reset, false),
        (closed, false),
        (away, true),
        (data(DATA, FIN, b""), false),
    ] {
        let mut session = Session::start();
        session.peer_sends(&[&end, &data(DATA, 0, b"late")]).await;
        let mut read = Vec::new();
        session.local.read_to_end(&mut read).await.unwrap();
        assert_eq!(
            (read, session.report.try_recv().is_ok()),
            (Vec::new(), reported),
            "{end:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_input_of_the_peer_panics_or_hangs(input in prop::collection::vec(any::<u8>(), 0..200), version in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut session = Session::start();
            let start: &[u8] = if version { &[0x80, 3, 0] } else { &[0, 0, 0] };
            session.peer_sends(&[start, &input]).await;
            let _ended = session.end().await;
        });
    }
}
