//! A core that is recorded, as a user's would be; its recording must do the same once more.

use std::{
    ops::{Deref, DerefMut},
    time::{Duration, Instant},
};

use crate::{
    config::Config,
    core::{
        Identity, Proxy,
        event::{Effect, Effects, Event},
    },
    recording::{
        encode::{Encoder, about},
        format::Kind,
        replay::first_difference,
    },
};

pub(super) struct Taped {
    core: Proxy,
    encoder: Encoder,
    tape: Vec<u8>,
    start: Option<Instant>,
}

impl Taped {
    pub(super) fn new(identity: Identity) -> Taped {
        Taped::with_texts(identity, false)
    }

    /// With texts: an action that depends on a text can be repeated only with it.
    pub(super) fn with_texts(identity: Identity, texts: bool) -> Taped {
        let mut encoder = Encoder::new(texts, []);
        let tape = encoder.header(identity, &Config::default());
        Taped { core: Proxy::new(identity), encoder, tape, start: None }
    }

    pub(super) fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        let at = now - *self.start.get_or_insert(now);
        self.tape.extend(self.encoder.event(at, &event));
        let before = out.len();
        self.core.handle(now, event, out);
        self.effects(at, &out[before..]);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        let at = now - *self.start.get_or_insert(now);
        self.tape.extend(Encoder::timeout(at));
        let before = out.len();
        self.core.handle_timeout(now, out);
        self.effects(at, &out[before..]);
    }

    fn effects(&mut self, at: Duration, effects: &[Effect]) {
        for effect in effects {
            self.tape.extend(self.encoder.effect(at, effect, about(&self.core, effect)));
        }
    }
}

impl Drop for Taped {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.tape.extend(Encoder::end(Duration::from_hours(10_000), Kind::Done));
        if let Some(difference) = first_difference(&self.tape, Instant::now()).unwrap() {
            panic!("a recording does not replay\n{difference}");
        }
    }
}

impl Deref for Taped {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.core
    }
}

impl DerefMut for Taped {
    fn deref_mut(&mut self) -> &mut Proxy {
        &mut self.core
    }
}
