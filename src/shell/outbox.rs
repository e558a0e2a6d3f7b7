//! Messages that wait to be written to one peer.
//!
//! Owns the queue, its byte count, its marks, the writing task, and the rule for dropping messages. Does not know the
//! peer, and starts nothing.
//!
//! - **[`Outbox::push`] never waits.**
//! - **Nothing is dropped under high water**, and over it only what [`Expendable`] names.
//! - Over the hard cap (without the messages that are being written) the peer counts as stalled. All further messages
//!   to it are discarded, so memory stays bounded.
//! - **The messages of one event are accepted together**, unless the queue was full before. A replayed session is as
//!   large as the open documents, and the peer has had no time to read.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    io::{self, IoSlice},
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, watch},
    time::sleep,
};

use super::{
    inbox::Events,
    logs,
    read_throttle::{ReadThrottle, ThrottleHandle},
};
use crate::{
    core::event::{Dropped, Event, Peer},
    rpc::{Frame, Kind, RawId, members},
};

/// A part of a message of this size or more is written without a copy.
const LARGE: usize = 16 * 1024;
/// The size of a buffer of small messages.
const PACK: usize = 64 * 1024;
/// Linux accepts up to 1024 slices at once; more than this does not help.
const MAX_SLICES: usize = 64;

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Above this, the source of the messages should pause, and expendable messages are dropped.
    pub high_water: usize,
    /// Below this, the source may continue.
    pub low_water: usize,
    /// Above this, without the messages that are being written, the peer counts as stalled. The overhead of each
    /// message counts too.
    pub hard_cap: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { high_water: 256 << 10, low_water: 64 << 10, hard_cap: 64 << 20 }
    }
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The message is queued, or was dropped as expendable.
    Taken,
    /// The message exceeded the hard cap, for the first time.
    Stalled,
    /// The message is discarded, because the peer is abandoned.
    Discarded,
}

/// A message that may be dropped over high water.
#[derive(Debug, PartialEq, Eq)]
pub enum Expendable {
    /// A line for the editor's log window.
    LogMessage,
    /// A report of progress, if a later one with the same token repeats all its members.
    Report {
        /// `params.token`.
        token: RawId,
        /// The optional members that it has.
        says: Says,
    },
}

/// The optional members of a progress report. A missing one keeps its last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Says {
    message: bool,
    percentage: bool,
    cancellable: bool,
}

impl Says {
    fn covers(self, earlier: Says) -> bool {
        let Says { message, percentage, cancellable } = earlier;
        (self.message || !message) && (self.percentage || !percentage) && (self.cancellable || !cancellable)
    }
}

impl Expendable {
    /// Decides whether a message may be dropped. No other message must show the loss: never a value with other
    /// members (Copilot's replies are deltas), a partial result, a begin or an end.
    pub fn of(frame: &Frame) -> Option<Expendable> {
        if frame.kind() != Kind::Notification {
            return None;
        }
        match frame.method()? {
            "window/logMessage" | logs::LINE => Some(Expendable::LogMessage),
            "$/progress" => report(frame.params()?),
            _ => None,
        }
    }
}

fn report(params: &[u8]) -> Option<Expendable> {
    let (mut token, mut says) = (None, None);
    for (key, value) in members(params) {
        match &*key {
            "token" => token = Some(RawId::from_raw(&params[value])?),
            "value" => says = Some(says_only(&params[value])?),
            _ => return None,
        }
    }
    Some(Expendable::Report { token: token?, says: says? })
}

/// `None` if the value is not a report, or has a member that progress reports do not have.
fn says_only(value: &[u8]) -> Option<Says> {
    let (mut says, mut is_report) = (Says::default(), false);
    for (key, span) in members(value) {
        match &*key {
            "kind" => is_report = RawId::from_raw(&value[span])?.as_text()? == "report",
            "message" => says.message = true,
            "percentage" => says.percentage = true,
            "cancellable" => says.cancellable = true,
            _ => return None,
        }
    }
    is_report.then_some(says)
}

/// The queue of one peer, shared by the pusher and the writing task.
#[derive(Clone, Debug)]
pub struct Outbox(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: RefCell<Queue>,
    /// Signals new messages, or the end.
    filled: Notify,
    /// Signals that all is written.
    drained: Notify,
    /// True from high water on, until low water.
    is_over: Cell<bool>,
    /// The same, for tasks that wait for a change.
    over: watch::Sender<bool>,
    /// The throttle for the editor, which must not be paused for long.
    throttle: Option<ThrottleHandle>,
}

/// The limit of time in which a peer must take a byte.
#[derive(Debug)]
pub struct StallClock {
    /// The limit.
    pub after: Duration,
    /// While this is true, the clock stands still.
    pub stopped: watch::Receiver<bool>,
    /// Where to report a stall.
    pub events: Events,
    /// The peer in the report.
    pub peer: Peer,
}

impl StallClock {
    async fn runs_out(&mut self) {
        // An error means that nothing can stop the clock.
        loop {
            self.stopped.wait_for(|stopped| !stopped).await.ok();
            tokio::select! {
                () = sleep(self.after) => return,
                Ok(_) = self.stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }
}

impl Outbox {
    /// An empty queue.
    pub fn new(limits: Limits) -> Outbox {
        Outbox::with(limits, None)
    }

    /// A queue that throttles the editor from high water on, until low water.
    pub(super) fn throttling(limits: Limits, throttle: &ReadThrottle) -> Outbox {
        Outbox::with(limits, Some(throttle.handle()))
    }

    fn with(limits: Limits, throttle: Option<ThrottleHandle>) -> Outbox {
        Outbox(Rc::new(Shared {
            queue: RefCell::new(Queue::new(limits)),
            filled: Notify::new(),
            drained: Notify::new(),
            is_over: Cell::new(false),
            over: watch::Sender::new(false),
            throttle,
        }))
    }

    /// Appends a message.
    pub fn push(&self, frame: Frame) -> Pushed {
        self.push_of(None, frame)
    }

    /// Appends a message that the event with this number causes.
    pub(super) fn push_of(&self, event: Option<u64>, frame: Frame) -> Pushed {
        let mut queue = self.0.queue.borrow_mut();
        queue.begin(event);
        // Otherwise the writer checks the queue itself after its current write.
        let sleeps = queue.pieces.is_empty();
        let pushed = queue.push(frame);
        match pushed {
            Pushed::Taken => {
                self.0.mark(&queue);
                if sleeps {
                    self.0.filled.notify_one();
                }
            }
            Pushed::Stalled => tracing::warn!(bytes = queue.n_bytes(), "queue of a peer exceeded its limit"),
            Pushed::Discarded => {}
        }
        pushed
    }

    /// Closes the stream after the queued messages.
    pub fn close(&self) {
        let mut queue = self.0.queue.borrow_mut();
        if queue.state == State::Open {
            queue.state = State::Closing;
        }
        self.0.filled.notify_one();
    }

    /// Waits until all is written or the peer is abandoned.
    pub async fn drained(&self) {
        while !self.0.queue.borrow().is_drained() {
            self.0.drained.notified().await;
        }
        self.0.drained.notify_one();
    }

    /// Whether the queue is over high water, and not below low water since.
    pub fn over_high_water(&self) -> watch::Receiver<bool> {
        self.0.over.subscribe()
    }

    /// The number of unwritten bytes.
    pub fn n_bytes(&self) -> usize {
        self.0.queue.borrow().n_bytes()
    }

    /// The dropped messages.
    pub fn dropped(&self) -> Dropped {
        self.0.queue.borrow().dropped
    }

    /// Writes messages until [`Outbox::close`] or an error, then drops the stream.
    pub async fn write_to(
        self,
        mut stream: impl AsyncWrite + Unpin,
        mut clock: Option<StallClock>,
    ) -> io::Result<()> {
        let mut batch = Batch::default();
        let result = loop {
            if !self.0.queue.borrow_mut().take(&mut batch) {
                if self.0.queue.borrow().state != State::Open {
                    break stream.shutdown().await;
                }
                self.0.filled.notified().await;
                continue;
            }
            if let Err(error) = self.write(&mut stream, &mut batch, &mut clock).await {
                break Err(error);
            }
        };
        let mut queue = self.0.queue.borrow_mut();
        queue.abandon();
        queue.taken = 0;
        queue.is_in_flight = false;
        self.0.mark(&queue);
        self.0.drained.notify_one();
        result
    }

    async fn write(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        batch: &mut Batch,
        clock: &mut Option<StallClock>,
    ) -> io::Result<()> {
        while !batch.is_empty() {
            let n = {
                let mut slices = [IoSlice::new(&[]); MAX_SLICES];
                let slices = batch.slices(&mut slices);
                let write = stream.write_vectored(slices);
                match clock {
                    None => write.await?,
                    Some(running) => tokio::select! {
                        biased;
                        n = write => n?,
                        () = running.runs_out() => {
                            running.events.tell(Event::Stalled(running.peer));
                            *clock = None;
                            continue;
                        }
                    },
                }
            };
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let mut queue = self.0.queue.borrow_mut();
            batch.advance(n, &mut queue.spare);
            queue.taken -= n;
            self.0.throttle.iter().for_each(ThrottleHandle::moved);
            self.0.mark(&queue);
        }
        // Completes a write through a thread; does nothing for other streams.
        stream.flush().await?;
        let mut queue = self.0.queue.borrow_mut();
        queue.is_in_flight = false;
        if queue.is_drained() {
            self.0.drained.notify_one();
        }
        Ok(())
    }
}

impl Shared {
    fn mark(&self, queue: &Queue) {
        let Limits { high_water, low_water, .. } = queue.limits;
        let n = queue.n_bytes();
        let was = self.is_over.get();
        let is = if was { n >= low_water && n > 0 } else { n > high_water };
        if is != was {
            self.is_over.set(is);
            self.over.send_replace(is);
            self.throttle.iter().for_each(|it| it.set_behind(is));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closing,
    /// Stalled or unwritable: further messages are discarded.
    Abandoned,
}

/// The queue without its tasks.
#[derive(Debug)]
struct Queue {
    limits: Limits,
    state: State,
    /// `None` is a dropped message.
    pieces: VecDeque<Option<Piece>>,
    /// How many pieces were taken from the front: the number of the first in `pieces`.
    n_popped: u64,
    /// The number of the last queued report of each token.
    reports: BTreeMap<RawId, u64>,
    /// Bytes in `pieces`.
    waiting: usize,
    /// Bytes that the writer has.
    taken: usize,
    /// Whether a buffer may still hold written bytes.
    is_in_flight: bool,
    dropped: Dropped,
    /// The event that causes the current pushes.
    event: Option<u64>,
    /// The waiting bytes before the event.
    before: usize,
    /// Whether all messages of this event are accepted.
    takes_all: bool,
    /// The limit: the hard cap, and the unwritten messages of one event.
    cap: usize,
    /// The memory of a written pack, for the next one.
    spare: Vec<u8>,
}

/// A queued piece.
#[derive(Debug)]
enum Piece {
    Message {
        frame: Frame,
        /// Its length with the header.
        len: usize,
        /// Boxed, because it is rare and many pieces may wait.
        report: Option<Box<(RawId, Says)>>,
    },
    /// Small messages in their written form. A frame would take more than twice the memory, and keep the whole buffer
    /// of its read alive.
    Pack(Vec<u8>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Message { len, .. } => *len,
            Piece::Pack(bytes) => bytes.len(),
        }
    }
}

impl Queue {
    fn new(limits: Limits) -> Queue {
        Queue {
            limits,
            state: State::Open,
            pieces: VecDeque::new(),
            n_popped: 0,
            reports: BTreeMap::new(),
            waiting: 0,
            taken: 0,
            is_in_flight: false,
            dropped: Dropped::default(),
            event: None,
            before: 0,
            takes_all: false,
            cap: limits.hard_cap,
            spare: Vec::new(),
        }
    }

    fn n_bytes(&self) -> usize {
        self.waiting + self.taken
    }

    fn is_drained(&self) -> bool {
        self.n_bytes() == 0 && !self.is_in_flight
    }

    fn push(&mut self, frame: Frame) -> Pushed {
        if self.state != State::Open {
            return Pushed::Discarded;
        }
        let len = wire_len(&frame);
        // The size of the queue counts, not of this message: a long message is not dropped for a peer that reads.
        let is_over = self.n_bytes() > self.limits.high_water;
        // Messages below high water are never dropped, so they need no report.
        let report = match if is_over { Expendable::of(&frame) } else { None } {
            Some(Expendable::LogMessage) => {
                self.dropped.log_messages += 1;
                return Pushed::Taken;
            }
            Some(Expendable::Report { token, says }) => Some(Box::new((token, says))),
            None => None,
        };
        if let Some((token, says)) = report.as_deref() {
            let number = self.n_popped + self.pieces.len() as u64;
            if let Some(earlier) = self.reports.insert(token.clone(), number) {
                self.drop_covered(earlier, *says);
            }
        }
        self.waiting += len;
        if report.is_none() && len < LARGE {
            self.pack(&frame, len);
        } else {
            self.pieces.push_back(Some(Piece::Message { frame, len, report }));
        }
        let waits = self.beside_head();
        if self.takes_all {
            self.cap = self.cap.max(self.limits.hard_cap + waits.saturating_sub(self.before));
        }
        if waits <= self.cap {
            return Pushed::Taken;
        }
        self.abandon();
        Pushed::Stalled
    }

    /// Notes the event that causes the next pushes, if any.
    fn begin(&mut self, event: Option<u64>) {
        if self.event == event {
            return;
        }
        self.event = event;
        self.before = self.beside_head();
        let is_little = self.before <= self.limits.hard_cap;
        self.takes_all = event.is_some() && is_little;
        if is_little {
            self.cap = self.limits.hard_cap;
        }
    }

    fn pack(&mut self, frame: &Frame, len: usize) {
        let mut bytes = match self.pieces.back_mut() {
            Some(Some(Piece::Pack(bytes))) if bytes.len() + len <= PACK => {
                if bytes.capacity() < bytes.len() + len {
                    bytes.reserve_exact(bytes.len().max(len).min(PACK - bytes.len()));
                }
                return write(frame, bytes);
            }
            // One pack is full already, so another large one is likely.
            Some(Some(Piece::Pack(_))) if self.spare.capacity() < PACK => Vec::with_capacity(PACK),
            Some(Some(Piece::Pack(_) | Piece::Message { .. }) | None) | None => {
                std::mem::take(&mut self.spare)
            }
        };
        bytes.reserve_exact(len);
        write(frame, &mut bytes);
        self.pieces.push_back(Some(Piece::Pack(bytes)));
    }

    /// The waiting bytes without the next message, with the overhead of each message.
    fn beside_head(&self) -> usize {
        let kept = self.pieces.len().saturating_sub(1) * size_of::<Option<Piece>>();
        let all = self.waiting + kept;
        if all > self.limits.hard_cap { all - self.head() } else { all }
    }

    /// The size of the next message, which has no limit. The messages of a pack are small.
    fn head(&self) -> usize {
        match self.pieces.iter().flatten().next() {
            Some(Piece::Message { len, .. }) if self.taken == 0 => *len,
            Some(Piece::Message { .. } | Piece::Pack(_)) | None => 0,
        }
    }

    fn drop_covered(&mut self, number: u64, says: Says) {
        let index = number.checked_sub(self.n_popped).and_then(|index| usize::try_from(index).ok());
        let Some(slot) = index.and_then(|index| self.pieces.get_mut(index)) else { return };
        let covered = |piece: &mut Piece| match piece {
            Piece::Message { report: Some(report), .. } => says.covers(report.1),
            Piece::Message { report: None, .. } | Piece::Pack(_) => false,
        };
        if let Some(dropped) = slot.take_if(covered) {
            self.waiting -= dropped.len();
            self.dropped.reports += 1;
        }
    }

    /// Fills an empty batch. `false` if the queue is empty.
    fn take(&mut self, batch: &mut Batch) -> bool {
        batch.segments.clear();
        batch.offset = 0;
        while batch.has_room() {
            let Some(piece) = self.pieces.pop_front() else { break };
            let number = self.n_popped;
            self.n_popped += 1;
            let Some(piece) = piece else { continue };
            let len = piece.len();
            self.waiting -= len;
            self.taken += len;
            self.is_in_flight = true;
            match piece {
                Piece::Pack(bytes) => batch.segments.push_back(Segment::Pack(bytes)),
                Piece::Message { frame, report, .. } => {
                    if let Some((token, _)) = report.as_deref()
                        && self.reports.get(token) == Some(&number)
                    {
                        self.reports.remove(token);
                    }
                    batch.push(&frame);
                }
            }
        }
        !batch.is_empty()
    }

    fn abandon(&mut self) {
        self.state = State::Abandoned;
        self.n_popped += self.pieces.len() as u64;
        self.pieces = VecDeque::new();
        self.reports.clear();
        self.waiting = 0;
    }
}

fn wire_len(frame: &Frame) -> usize {
    let body = frame.wire_len();
    let digits = body.checked_ilog10().map_or(1, |log| log as usize + 1);
    "Content-Length: \r\n\r\n".len() + digits + body
}

#[expect(clippy::inline_always, reason = "it is a fiftieth of what a message costs")]
#[inline(always)]
fn write_header(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
}

fn write(frame: &Frame, out: &mut Vec<u8>) {
    write_header(frame.wire_len(), out);
    frame.parts().iter().for_each(|part| out.extend_from_slice(part));
}

/// Messages that the writer has: small parts together, large ones without a copy.
#[derive(Debug, Default)]
struct Batch {
    segments: VecDeque<Segment>,
    /// How many bytes of the first segment are written.
    offset: usize,
}

#[derive(Debug)]
enum Segment {
    Pack(Vec<u8>),
    Part(Frame, usize),
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn has_room(&self) -> bool {
        self.segments.len() < MAX_SLICES / 2
    }

    fn push(&mut self, frame: &Frame) {
        let mut small = Vec::new();
        write_header(frame.wire_len(), &mut small);
        for (index, part) in frame.parts().into_iter().enumerate() {
            if part.len() < LARGE {
                small.extend_from_slice(part);
            } else {
                self.segments.push_back(Segment::Pack(std::mem::take(&mut small)));
                self.segments.push_back(Segment::Part(frame.clone(), index));
            }
        }
        if !small.is_empty() {
            self.segments.push_back(Segment::Pack(small));
        }
    }

    fn bytes(segment: &Segment) -> &[u8] {
        match segment {
            Segment::Pack(bytes) => bytes,
            Segment::Part(frame, index) => frame.parts()[*index],
        }
    }

    fn slices<'a, 'b>(&'a self, slices: &'b mut [IoSlice<'a>]) -> &'b [IoSlice<'a>] {
        let mut n = 0;
        for (slot, segment) in slices.iter_mut().zip(&self.segments) {
            let skip = if n == 0 { self.offset } else { 0 };
            *slot = IoSlice::new(&Self::bytes(segment)[skip..]);
            n += 1;
        }
        &slices[..n]
    }

    /// Notes `n` written bytes. A written pack becomes the spare one if it is larger.
    fn advance(&mut self, n: usize, spare: &mut Vec<u8>) {
        self.offset += n;
        while let Some(first) = self.segments.front() {
            let len = Self::bytes(first).len();
            if self.offset < len {
                return;
            }
            self.offset -= len;
            if let Some(Segment::Pack(mut bytes)) = self.segments.pop_front()
                && bytes.capacity() > spare.capacity()
            {
                bytes.clear();
                *spare = bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests;
