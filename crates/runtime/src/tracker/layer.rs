use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{Report, Tracker};

pub(crate) struct ReportLayer(pub(super) Tracker);

/// Log targets of the code that sends reports.
const SENDING: [&str; 5] = ["hyper", "reqwest", "rustls", "h2", "sched_runtime::delivery"];

#[derive(Default)]
struct Facts {
    message: String,
    facts: Vec<(String, String)>,
}

impl Facts {
    fn record(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => {
                self.facts.retain(|(known, _)| known != name);
                self.facts.push((name.to_owned(), value));
            }
        }
    }
}

impl Visit for Facts {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record(field, crate::exit::describe(value));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ReportLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut facts = Facts::default();
            attributes.record(&mut facts);
            span.extensions_mut().insert(facts);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(facts) = span.extensions_mut().get_mut::<Facts>()
        {
            values.record(facts);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        // Otherwise each report could cause the next.
        let is_of_sending = SENDING.iter().any(|part| event.metadata().target().starts_with(part));
        if *event.metadata().level() != Level::ERROR || is_of_sending {
            return;
        }
        self.0.report(|| {
            let mut own = Facts::default();
            event.record(&mut own);
            let mut facts = vec![("target".to_owned(), event.metadata().target().to_owned())];
            for span in context.event_scope(event).into_iter().flatten() {
                if let Some(of_span) = span.extensions().get::<Facts>() {
                    facts.extend(of_span.facts.iter().cloned());
                }
            }
            // Outermost span first: the last value of a field wins.
            facts.reverse();
            facts.extend(own.facts);
            Report { title: own.message, facts, ..Report::default() }
        });
    }
}
