; Names and scopes of a Python file. Of several patterns that match a name, the last one counts.
(identifier) @use
(attribute) @use
(dotted_name (identifier) . (identifier)) @use
(call function: (_) @called)
(keyword_argument name: (identifier) @no_name)
(keyword_pattern . (identifier) @no_name)
(function_definition name: (identifier) @no_name)
(class_definition name: (identifier) @no_name)
(type_alias_statement left: (type (generic_type (type_parameter (type (identifier) @no_name)))))

; A scope begins with its node. What is `inside` belongs to it; the rest, like a default, to the scope around it.
[(function_definition) (class_definition) (lambda)] @scope
[(list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @scope
(function_definition body: (_) @inside)
(class_definition body: (_) @inside)
(lambda body: (_) @inside)
; In a comprehension it is the other way round: all of it is, but its first iterable.
(for_in_clause right: (_) @inside)

; Names that are bound. `@whole` has their value or type.
[
  (pattern_list (identifier) @bound)
  (tuple_pattern (identifier) @bound)
  (list_pattern (identifier) @bound)
  (list_splat_pattern (identifier) @bound)
  (splat_pattern (identifier) @bound)
  (for_statement left: (identifier) @bound)
  (for_in_clause left: (identifier) @bound)
  (as_pattern_target (identifier) @bound)
  (as_pattern_target (tuple (identifier) @bound))
  (as_pattern_target (list (identifier) @bound))
  (case_pattern (dotted_name . (identifier) @bound .))
  (case_pattern (as_pattern (identifier) @bound))
  (keyword_pattern (dotted_name . (identifier) @bound .))
  (function_definition type_parameters: (type_parameter (type [
    (identifier) @bound (splat_type (identifier) @bound) (constrained_type . (type (identifier) @bound))])))
  (class_definition type_parameters: (type_parameter (type [
    (identifier) @bound (splat_type (identifier) @bound) (constrained_type . (type (identifier) @bound))])))
]
(as_pattern alias: (as_pattern_target (identifier) @bound)) @whole
(assignment left: [
  (pattern_list [(identifier) @assigned (list_splat_pattern (identifier) @assigned)])
  (tuple_pattern [(identifier) @assigned (list_splat_pattern (identifier) @assigned)])
  (list_pattern [(identifier) @assigned (list_splat_pattern (identifier) @assigned)])
])
(assignment left: (identifier) @assigned) @whole
(type_alias_statement left: (type [(identifier) @assigned (generic_type . (identifier) @assigned)]))
(named_expression name: (identifier) @assigned_around) @whole
(augmented_assignment left: (identifier) @bound_unless_before)
(delete_statement [
  (identifier) @bound_unless_before
  (parenthesized_expression (identifier) @bound_unless_before)
  (expression_list (identifier) @bound_unless_before)
])
(for_statement left: (attribute) @bound_attribute)
(as_pattern alias: (as_pattern_target (attribute) @bound_attribute)) @whole
[(pattern_list (attribute) @assigned_attribute) (tuple_pattern (attribute) @assigned_attribute)]
(assignment left: (attribute) @assigned_attribute) @whole

; Parameters. `@whole` has their type.
(parameters [
  (identifier) @parameter
  (tuple_pattern (identifier) @parameter)
  (list_splat_pattern (identifier) @parameter)
  (dictionary_splat_pattern (identifier) @parameter)
  (typed_parameter [(list_splat_pattern (identifier) @parameter) (dictionary_splat_pattern (identifier) @parameter)])
])
(lambda_parameters [
  (identifier) @parameter
  (list_splat_pattern (identifier) @parameter)
  (dictionary_splat_pattern (identifier) @parameter)
  (default_parameter name: (identifier) @parameter)
])
(parameters [
  (typed_parameter . (identifier) @parameter)
  (default_parameter name: (identifier) @parameter)
  (typed_default_parameter name: (identifier) @parameter)
] @whole)

; Statements that are read as a whole.
[(import_statement) (import_from_statement) (future_import_statement)] @import
(global_statement (identifier) @global)
(nonlocal_statement (identifier) @nonlocal)
(return_statement) @return
(yield) @yield
