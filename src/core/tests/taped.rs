//! A core that is recorded, as a user's would be; its recording must do the same once more.

use std::{
    ops::{Deref, DerefMut},
    time::Instant,
};

use crate::{
    config::Config,
    core::{
        Identity, Proxy,
        event::{Effects, Event},
    },
    recording::{
        encode::Encoder,
        format::{About, Kind},
        replay::{Replay, process},
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
        let mut encoder = Encoder::new(false, []);
        let tape = encoder.header(identity, false, &Config::default());
        Taped { core: Proxy::new(identity), encoder, tape, start: None }
    }

    pub(super) fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        let at = now - *self.start.get_or_insert(now);
        self.tape.extend(self.encoder.event(at, &event));
        let before = out.len();
        self.core.handle(now, event, out);
        self.effects(now, &out[before..]);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        self.tape.extend(Encoder::timeout(now - *self.start.get_or_insert(now)));
        let before = out.len();
        self.core.handle_timeout(now, out);
        self.effects(now, &out[before..]);
    }

    fn effects(&mut self, now: Instant, effects: &[crate::core::event::Effect]) {
        let at = now - self.start.unwrap_or(now);
        for effect in effects {
            let about = process(effect).and_then(|it| self.core.about(it.backend));
            let about = about.map(|(name, tools)| About { name: name.to_owned(), tools });
            self.tape.extend(self.encoder.effect(at, effect, about));
        }
    }
}

impl Drop for Taped {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.tape.extend(Encoder::end(std::time::Duration::from_hours(10_000), Kind::Done));
        let (mut replay, _) = Replay::new(&self.tape[..], Instant::now()).unwrap();
        while let Some(step) = replay.step().unwrap() {
            if let Some(difference) = replay.difference(&step) {
                panic!("a recording does not replay\n{difference}");
            }
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
