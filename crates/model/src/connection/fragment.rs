//! Parts of statements that the query builder cannot express, with a static identity.
//!
//! `diesel::dsl::sql` makes PostgreSQL prepare the surrounding statement at every execution: a
//! round trip and a plan. A fragment's text is constant, so the statement is prepared once per
//! connection.

/// Declares an expression without parameters: a unit struct, its SQL type, its text.
macro_rules! fragment {
    ($(#[$meta:meta])* $name:ident: $sql:ty = $text:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, diesel::query_builder::QueryId, diesel::expression::ValidGrouping)]
        pub struct $name;

        impl diesel::expression::Expression for $name {
            type SqlType = $sql;
        }

        impl<Source> diesel::expression::AppearsOnTable<Source> for $name {}

        impl<Source> diesel::expression::SelectableExpression<Source> for $name {}

        impl diesel::query_builder::QueryFragment<diesel::pg::Pg> for $name {
            fn walk_ast<'b>(
                &'b self,
                mut out: diesel::query_builder::AstPass<'_, 'b, diesel::pg::Pg>,
            ) -> diesel::QueryResult<()> {
                out.push_sql($text);
                Ok(())
            }
        }
    };
}
