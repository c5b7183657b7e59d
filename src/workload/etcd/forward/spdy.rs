//! The part of SPDY/3.1 that one port-forward needs, over any stream of bytes.
//!
//! A port-forward has two SPDY streams: one carries the bytes of the connection, and the kubelet
//! reports a failure on the other one. The peers of Kubernetes have no flow control and no
//! settings, and their replies have no headers that matter here. So this module reads no compressed
//! headers, and sends its own ones uncompressed inside of the zlib format.
//!
//! It must never wait for the peer while it holds bytes of the peer: what the local side does not
//! take stops the reading, and so the peer.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

/// The name of the protocol in an upgrade.
pub(super) const PROTOCOL: &str = "SPDY/3.1";

/// The SPDY stream with reports of failures.
const ERROR: u32 = 1;
/// The SPDY stream with the bytes of the connection.
const DATA: u32 = 3;
/// The flag of the last frame of a stream.
const FIN: u8 = 1;
/// Types of control frames. The others are skipped.
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// The longest report that is kept, in bytes.
const LONGEST_REPORT: usize = 4 << 10;
/// Bytes that are copied at once.
const CHUNK: usize = 16 << 10;

/// Forwards one connection to a port until one side ends. `report` gets what the kubelet reports,
/// or the failure of the transport, before the local side sees the end of the stream.
pub(super) async fn run<T>(transport: T, port: u16, local: DuplexStream, report: oneshot::Sender<String>)
where
    T: AsyncRead + AsyncWrite + Send,
{
    let (from_peer, to_peer) = tokio::io::split(transport);
    let (from_local, to_local) = tokio::io::split(local);
    let (pings, echoes) = mpsc::channel(1);
    let mut incoming = Incoming {
        from_peer,
        to_local,
        pings,
        reported: Vec::new(),
    };
    let sending = async {
        let sent = send(to_peer, port, from_local, echoes).await;
        if sent.is_err() {
            // A kubelet that closes the connection may have sent its report before.
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = incoming.run() => ended,
        () = sending => Ok(()),
    };
    let text = match (incoming.reported.is_empty(), ended) {
        (false, _) => Some(String::from_utf8_lossy(&incoming.reported).into_owned()),
        (true, Err(error)) if error.kind() != ErrorKind::UnexpectedEof => Some(error.to_string()),
        _ => None,
    };
    if let Some(text) = text {
        // Without a receiver, the connection is closed already.
        let _unread = report.send(text);
    }
    // The local side ends with `incoming`, after the report.
    drop(incoming);
}

/// Opens the two streams, then sends what the local side writes and the answers to pings, until the
/// local side ends.
async fn send<T: AsyncWrite>(
    mut to_peer: WriteHalf<T>,
    port: u16,
    mut from_local: ReadHalf<DuplexStream>,
    mut echoes: mpsc::Receiver<[u8; 4]>,
) -> Result<()> {
    to_peer.write_all(&opening(port)).await?;
    to_peer.flush().await?;
    let mut buffer = vec![0; CHUNK];
    loop {
        tokio::select! {
            read = from_local.read(&mut buffer) => {
                let read = read?;
                let flags = if read == 0 { FIN } else { 0 };
                to_peer.write_all(&frame(DATA, flags, read)).await?;
                to_peer.write_all(buffer.get(..read).unwrap_or_default()).await?;
                to_peer.flush().await?;
                if read == 0 {
                    return Ok(());
                }
            }
            Some(id) = echoes.recv() => {
                to_peer.write_all(&control(PING, 0, &id)).await?;
                to_peer.flush().await?;
            }
        }
    }
}

/// What the peer sends.
struct Incoming<T> {
    from_peer: ReadHalf<T>,
    to_local: WriteHalf<DuplexStream>,
    /// Pings of the peer, for their answers.
    pings: mpsc::Sender<[u8; 4]>,
    /// What arrived on the stream for reports.
    reported: Vec<u8>,
}

impl<T: AsyncRead> Incoming<T> {
    /// Reads frames until the connection or its report ends.
    async fn run(&mut self) -> Result<()> {
        loop {
            let mut head = [0; 8];
            self.from_peer.read_exact(&mut head).await?;
            let [first @ .., flags, high, middle, low] = head;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let is_last = flags & FIN != 0;
            let [version, _, kind @ ..] = first;
            if version & 0x80 == 0 {
                let stream = u32::from_be_bytes(first);
                self.data(stream, length).await?;
                if is_last && self.ends_with(stream) {
                    return Ok(());
                }
                continue;
            }
            let Some(stream) = self.controlled(u16::from_be_bytes(kind), is_last, length).await? else {
                continue;
            };
            if self.ends_with(stream) {
                return Ok(());
            }
        }
    }

    /// Whether the port-forward ends with a stream. The stream for reports ends without a report if
    /// the kubelet reaches the port.
    fn ends_with(&self, stream: u32) -> bool {
        stream == DATA || stream == ERROR && !self.reported.is_empty()
    }

    async fn data(&mut self, stream: u32, length: usize) -> Result<()> {
        let mut left = length;
        let mut buffer = [0; CHUNK];
        while left > 0 {
            let part = buffer.get_mut(..left.min(CHUNK)).unwrap_or_default();
            let read = self.from_peer.read(part).await?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let part = part.get(..read).unwrap_or_default();
            match stream {
                DATA => self.to_local.write_all(part).await?,
                ERROR => {
                    let room = LONGEST_REPORT.saturating_sub(self.reported.len());
                    self.reported.extend(part.iter().take(room));
                }
                _ => {}
            }
            left = left.saturating_sub(read);
        }
        Ok(())
    }

    /// Reads a control frame. Returns the stream that it ends, if any.
    async fn controlled(&mut self, kind: u16, is_last: bool, length: usize) -> Result<Option<u32>> {
        let mut start = [0; 4];
        let known = length.min(start.len());
        self.from_peer
            .read_exact(start.get_mut(..known).unwrap_or_default())
            .await?;
        let rest = length.saturating_sub(known) as u64;
        let mut skipped = (&mut self.from_peer).take(rest);
        tokio::io::copy(&mut skipped, &mut tokio::io::sink()).await?;
        let id = u32::from_be_bytes(start);
        match kind {
            // A ping with an odd identifier would be an answer to a client.
            PING if id % 2 == 0 => {
                // If another answer still waits, the peer gets that one.
                let _full = self.pings.try_send(start);
                Ok(None)
            }
            RST_STREAM => Ok(Some(id)),
            SYN_REPLY if is_last => Ok(Some(id)),
            GOAWAY => Err(Error::other("the server closes the connection")),
            _ => Ok(None),
        }
    }
}

/// The frames that open the two streams. This side sends nothing on the stream for reports.
fn opening(port: u16) -> Vec<u8> {
    let mut frames = Vec::new();
    for (stream, kind, flags) in [(ERROR, "error", FIN), (DATA, "data", 0)] {
        // The stream, the stream that it belongs to, the priority, and the slot.
        let mut payload = stream.to_be_bytes().to_vec();
        payload.extend([0; 6]);
        if stream == ERROR {
            // The zlib format, without a dictionary. It continues in the frames that follow.
            payload.extend([0x78, 0x01]);
        }
        let port = port.to_string();
        let headers = headers(&[("streamtype", kind), ("port", &port), ("requestid", "0")]);
        payload.extend(stored(&headers));
        // A block without content: the reader has the contents of the block before it then.
        payload.extend(stored(&[]));
        frames.extend(control(SYN_STREAM, flags, &payload));
    }
    frames
}

/// The names and values of a header block. Names are in lower case.
fn headers(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = size(headers.len()).to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.extend(size(text.len()));
        block.extend(text.as_bytes());
    }
    block
}

/// A block of the deflate format that is not compressed. `content` has less than 64 KiB.
fn stored(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let [low, high] = length.to_le_bytes();
    let mut block = vec![0, low, high, !low, !high];
    block.extend(content);
    block
}

/// A control frame of version 3.
fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let first = 0x8003_0000 | u32::from(kind);
    let mut all = frame(first, flags, payload.len()).to_vec();
    all.extend(payload);
    all
}

/// The head of a frame.
fn frame(first: u32, flags: u8, length: usize) -> [u8; 8] {
    let [a, b, c, d] = first.to_be_bytes();
    let [_, high, middle, low] = size(length);
    [a, b, c, d, flags, high, middle, low]
}

/// A length of less than 16 MiB.
fn size(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests;
